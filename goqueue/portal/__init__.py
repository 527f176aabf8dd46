"""Calls from threads without Trio into a thread that runs it, for `goqueue.blocking` and `goqueue.aio`."""
