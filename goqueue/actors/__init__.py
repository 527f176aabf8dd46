"""The actor runtime, and the thin shells that live on it."""
