"""The topics of a node: what there is, its partitions, their upkeep and their backup."""
