"""The counters of a broker."""
