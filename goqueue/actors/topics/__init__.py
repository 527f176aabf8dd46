"""The topics of a node, their partitions, upkeep and backup."""
