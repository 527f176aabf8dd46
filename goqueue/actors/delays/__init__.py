"""A partition's part in delays, and the timer wheel of the node."""
