"""`goqueue spark`: commands that run on Spark."""
