"""What happens to assets: their events, and what DAGs make of those."""
