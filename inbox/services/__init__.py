"""The only writers of the inbox's tables."""
