"""Two sessions joined by hand, so that a test decides when each frame moves."""

from collections import deque
from dataclasses import replace

from goqueue.net.session.client import ClientSession
from goqueue.net.session.events import Event, HelloReceived, Welcomed
from goqueue.net.session.machine import Session
from goqueue.net.session.server import ServerSession
from goqueue.net.wire.limits import Limits
from goqueue.net.wire.messages import Hello

CLUSTER = bytes(range(16))
HELLO = Hello(1, ("zstd",), "tests", CLUSTER, b"key")
SMALL = Limits(
    frame_size_max=256,
    hello_size_max=128,
    message_size_max=4096,
    requests_max=4,
    partial_messages_max=2,
    partial_bytes_max=6000,
)


def new_server(limits: Limits | None = None) -> ServerSession:
    return ServerSession(CLUSTER, "node-1", ("zstd",), limits)


def take_all(source: Session, target: Session) -> list[Event]:
    """Move every frame that waits; what the target makes of them."""
    events = []
    while (frame := source.next_frame()) is not None:
        event = target.receive(frame)
        if event is not None:
            events.append(event)
    return events


def only(events: list[Event]) -> Event:
    (event,) = events
    return event


def joined(
    client_limits: Limits | None = None, server_limits: Limits | None = None
) -> tuple[ClientSession, ServerSession]:
    """Two ends that have greeted each other."""
    if server_limits and not client_limits:
        client_limits = replace(server_limits, requests_max=256)
    client, server = ClientSession(client_limits), new_server(server_limits)
    client.hello(HELLO)
    assert take_all(client, server) == [HelloReceived(HELLO, 1)]
    server.welcome()
    assert isinstance(only(take_all(server, client)), Welcomed)
    return client, server


class Wire:
    """Frames on their way from one end to the other."""

    def __init__(self, source: Session, target: Session) -> None:
        self.source, self.target = source, target
        self.frames: deque[bytes] = deque()

    def send(self) -> None:
        frame = self.source.next_frame()
        if frame is not None:
            self.frames.append(frame)

    def arrive(self) -> Event | None:
        return self.target.receive(self.frames.popleft()) if self.frames else None
