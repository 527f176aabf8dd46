"""A partition's part in consumer groups: what is handed out, settled and waited for."""
