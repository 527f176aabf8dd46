"""The ledger of a group on a partition: deliveries, leases, receipts, retries, progress."""
