"""Transports of frames: websockets over a stream."""
