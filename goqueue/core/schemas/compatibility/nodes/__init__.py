"""A schema as it is compared: its parts, what its references stand for, and what never matters left out."""
