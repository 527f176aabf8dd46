"""The log of a partition on disk, and the volume that all logs of a node share."""
