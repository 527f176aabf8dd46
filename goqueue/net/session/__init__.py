"""The rules of a connection, without the connection: the machine that both ends share."""
