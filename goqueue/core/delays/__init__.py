"""Delayed messages: what is pending, what the log says of them, and the timer wheel."""
