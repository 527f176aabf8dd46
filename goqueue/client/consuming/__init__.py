"""Consumers of a group in queue mode."""
