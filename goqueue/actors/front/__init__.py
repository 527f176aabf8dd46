"""The side of the broker that clients talk to: ports, connections, and a function for each request."""
