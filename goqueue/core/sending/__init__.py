"""A producer's side of a batch: chunks, the send queue of a partition, rounds, the partitioner."""
