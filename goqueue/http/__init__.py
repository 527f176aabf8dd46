"""The HTTP gateway: every route is a request of the wire protocol, and there are the broker's instruments."""
