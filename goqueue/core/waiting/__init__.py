"""Waiting for messages: long polls, members, and whose turn it is."""
