"""Workers: a handler run for each message of a group."""
