"""The actor runtime: mailboxes, messages, lives, supervisors. It knows nothing of a broker."""
