"""Template tags of the agents."""
