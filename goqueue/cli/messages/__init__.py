"""`goqueue produce` and `goqueue consume`."""
