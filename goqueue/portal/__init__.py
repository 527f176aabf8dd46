"""From threads that know nothing of Trio into one that runs it: what `goqueue.blocking` and `goqueue.aio` share."""
