"""Topics: which there are, how they are configured, and whether a partition was lost."""
