"""The owner of the schema registry, and what it shows to others."""
