"""The format `goqueue` of Spark."""
