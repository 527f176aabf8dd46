"""JSON messages as typed columns: read by Arrow if they fit at once, else by Spark."""
