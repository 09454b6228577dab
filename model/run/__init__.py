"""A run: what identifies it, what it keeps, which task is next and why not."""
