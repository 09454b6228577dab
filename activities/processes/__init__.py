"""Processes of a worker: one warm parent, everything that may run user code is a fork below it."""
