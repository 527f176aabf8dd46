"""An HTTP/1.1 server on h11, over any stream: connections, bodies, answers, and what it refuses."""
