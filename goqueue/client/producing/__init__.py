"""Producers: messages on their way to partitions, each confirmed."""
