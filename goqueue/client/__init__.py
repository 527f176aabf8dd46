"""The client library for Trio."""
