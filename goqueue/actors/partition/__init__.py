"""The partition: the actor that owns one log."""
