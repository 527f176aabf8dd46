"""`goqueue schema`: registers, shows, compares and deletes schemas."""
