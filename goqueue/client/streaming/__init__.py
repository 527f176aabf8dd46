"""Consumers of a group in stream mode."""
