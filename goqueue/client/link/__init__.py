"""The connection of a client, and what programs hand over to it."""
