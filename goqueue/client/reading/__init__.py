"""Readers without a group, and their messages."""
