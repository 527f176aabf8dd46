"""What can go wrong between two ends of a connection."""

from goqueue.errors import GoQueueError, ProtocolError, Unavailable


class FrameTooLarge(ProtocolError):
    """A frame or message is beyond the size that both ends agreed on. Send less at a time."""

    code = "frame_too_large"


class UnknownKind(ProtocolError):
    """A kind of message that this end does not know: the other one is newer, or no goqueue. Upgrade the older of
    the two."""

    code = "unknown_kind"


class UnsupportedVersion(ProtocolError):
    """The two ends share no version of the protocol. Upgrade the older of the two.

    `details` has `lowest` and `highest`.
    """

    code = "unsupported_version"


class WrongCluster(GoQueueError):
    """The client expects another cluster than the one that answered. Correct the address, or the cluster that is
    expected."""

    code = "wrong_cluster"


class HandshakeRefused(GoQueueError):
    """The connection was not opened: its Host or Origin is not allowed, or the other end speaks no websocket.
    Use the address that the broker says when it starts."""

    code = "handshake_refused"


class TooManyRequests(GoQueueError):
    """More is under way on this connection than one end may ask for. Wait for answers, then repeat."""

    code = "too_many_requests"
    retryable = True


class GoingAway(Unavailable):
    """The other end is closing, and nothing was done. Repeat it on a new connection; goqueue's own client does
    so by itself."""

    code = "going_away"


class ConnectionLost(Unavailable):
    """The connection ended before it was closed; what was under way may or may not have been done. Connect
    again, and repeat what is harmless to repeat."""

    code = "connection_lost"
