"""Choosing records from what was read of a log: by offset, by lane, by reader."""
