"""What clients talk to: ports, connections, and a function for each request."""
