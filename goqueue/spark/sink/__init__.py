"""Tables as topics: the sink."""
