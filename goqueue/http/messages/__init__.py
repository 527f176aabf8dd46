"""Messages in JSON, both ways: what requests publish, and what answers hold."""
