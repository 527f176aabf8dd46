"""The wire: messages and their bytes, the session both ends share, and the transports below it."""
