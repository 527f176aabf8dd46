"""The delay index of a partition, and scans of a log for delayed messages."""
