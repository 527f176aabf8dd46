"""Read-only checks of a data directory, which name every damaged range, and dumps of its files."""
