"""Schemas for a client: requests to the registry, and values that are objects of a program."""
