"""What is asked of Temporal's service, and of what workers keep: connections, lists, clearing away, logs."""
