"""The data directory: its lock, the folders of topics, the list of topics."""
