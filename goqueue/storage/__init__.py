"""Bytes on disk: batches, segments, indexes, logs, journals."""
