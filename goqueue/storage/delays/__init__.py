"""The delay index of a partition, and what a log says of delayed messages."""
