"""Metrics: one table of families, read from boards and counters in slices, written as text for Prometheus."""
