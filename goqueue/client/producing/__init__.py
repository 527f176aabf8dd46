"""Producers: they send messages to partitions, each confirmed."""
