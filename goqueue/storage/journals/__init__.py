"""Small durable state as a journal of entries and snapshots."""
