"""Kinds of task that are a folder each.

`spec.py` says what such a task is, `operator.py` how DAG files write it, `work.py` what a child process does for it.
A folder here is found by itself; a package of somebody else's by its entry point in the group `tidemill.kinds`.
"""
