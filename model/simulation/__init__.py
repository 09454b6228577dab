"""DAGs over time without a server: the engine's own decisions with a clock of one's own."""
