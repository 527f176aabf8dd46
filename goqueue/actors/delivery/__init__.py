"""Consumer groups on a partition: deliveries, settlements and waiters."""
