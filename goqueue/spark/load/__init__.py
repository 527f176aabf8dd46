"""Files become messages."""
