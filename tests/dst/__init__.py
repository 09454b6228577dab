"""Deterministic simulation: the workflow classes that ship, on a model of Temporal's service, under a seed."""
