"""The metadata of a broker: which topics and groups there are, durably."""
