"""Reading without a group, and what a reader gets."""
