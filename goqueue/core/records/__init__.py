"""What a message is in bytes: records, batches, and the one check that every record passes."""
