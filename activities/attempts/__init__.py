"""One try of a task, on the worker's side: find, fork, watch, outcome."""
