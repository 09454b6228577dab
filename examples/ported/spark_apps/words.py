"""Some words."""

WORDS = ["the", "sea", "and", "the", "mill", "and", "the", "tide"]
