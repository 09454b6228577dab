"""What workflows answer to: their queries, updates and signals, by kind of workflow."""
