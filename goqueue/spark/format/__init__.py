"""The format `goqueue`, as Spark sees it."""
