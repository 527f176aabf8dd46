"""The delayed messages of a partition, and the timer wheel of the node."""
