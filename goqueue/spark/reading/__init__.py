"""Topics as tables: batch and streaming sources."""
