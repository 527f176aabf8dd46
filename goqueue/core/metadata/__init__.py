"""The metadata of a broker: its topics and groups as one machine."""
