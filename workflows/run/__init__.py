"""The durable life of a run."""
