"""`goqueue bench`: what a running broker does here."""
