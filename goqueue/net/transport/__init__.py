"""What carries frames: websockets over a stream."""
