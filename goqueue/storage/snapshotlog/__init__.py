"""Small durable state: the entries of a core machine and its snapshots, as records of a log."""
