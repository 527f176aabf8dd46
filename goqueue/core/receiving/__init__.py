"""What a consumer requests from the broker, and how much it holds: rules of the client, without a connection."""
