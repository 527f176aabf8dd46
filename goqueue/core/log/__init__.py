"""The rules of one partition's log: what is appended, what is remembered of producers, what is removed."""
