"""The log of a partition on disk, and what all logs of a node share."""
