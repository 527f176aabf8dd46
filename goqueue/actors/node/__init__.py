"""One broker: its tree of actors and the watchdog of its event loop."""
