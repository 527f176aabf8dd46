"""`goqueue bench`: measures a running broker."""
