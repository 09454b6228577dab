"""What a forked child does: the user's code, and all that is close to it. Nothing here imports Temporal."""
