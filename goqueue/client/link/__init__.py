"""The connection of a client, and checks of its arguments."""
