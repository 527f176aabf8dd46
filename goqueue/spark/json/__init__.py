"""JSON messages as typed columns: read by Arrow where they fit at once, by Spark where they do not."""
