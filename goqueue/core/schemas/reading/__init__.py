"""A schema as it is read: its text, the schemas within it, what its references name, and what it may cost."""
