"""The only writers of the agents' tables."""
