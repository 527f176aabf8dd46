"""Waiting for messages, and until when: long polls, members, deadlines."""
