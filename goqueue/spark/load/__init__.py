"""Publishes the rows of files as messages."""
