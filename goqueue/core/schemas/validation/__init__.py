"""Whether a message fits the schemas of its topic."""
