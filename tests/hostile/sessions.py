"""One seed of hostile frames thrown at a session: what must hold after each of them."""

import tracemalloc
from random import Random

from goqueue.errors import OffsetOutOfRange
from goqueue.net.session.client import ClientSession
from goqueue.net.session.events import Event, HelloReceived, RequestReceived, SessionClosed
from goqueue.net.session.machine import Session, SessionState
from goqueue.net.wire.kinds import ANSWERS
from goqueue.net.wire.limits import Limits
from goqueue.net.wire.messages import Stats
from tests.hostile.frames import drawn_body, hostile_frame
from tests.net.ends import HELLO, SMALL, joined, new_server

FRAMES = 60
MEMORY_FACTOR = 24
"""A byte on the wire may become an object of so many bytes."""
MEMORY_BASE = 512 * 1024
"""What reading and writing one frame takes, however small it is: msgpack's buffers."""


def harass_server(seed: int) -> None:
    random = Random(seed)
    limits = random.choice((SMALL, Limits()))
    server = joined(limits, limits)[1] if random.random() < 0.7 else new_server(limits)
    if random.random() < 0.2 and server.state is SessionState.OPEN:
        server.go_away("the end is near")
    for _ in range(FRAMES):
        event = _receive(server, hostile_frame(random))
        if isinstance(event, HelloReceived):
            server.welcome()
        elif isinstance(event, RequestReceived) and random.random() < 0.5:
            server.refuse(event.correlation, OffsetOutOfRange("not here"))
        _take_what_is_said(server)
        assert len(server.under_way) <= limits.requests_max


def harass_client(seed: int) -> None:
    random = Random(seed)
    limits = random.choice((SMALL, Limits()))
    client = joined(limits, limits)[0] if random.random() < 0.8 else ClientSession(limits)
    if client.state is SessionState.NEW:
        client.hello(HELLO)
    for _ in range(FRAMES):
        if client.state is SessionState.OPEN and len(client.under_way) < limits.requests_max:
            wanted = drawn_body(random, random.choice(list(ANSWERS))) if random.random() < 0.5 else Stats()
            client.request(wanted)  # type: ignore[arg-type]
        _receive(client, hostile_frame(random))
        _take_what_is_said(client)


def _receive(session: Session, frame: bytes) -> Event | None:
    """The frame moves the session as the table says, and costs memory by its size only."""
    before, gathered = session.state, sum(len(each.content) for each in session._assembly._partial.values())
    tracemalloc.reset_peak()
    held, _ = tracemalloc.get_traced_memory()
    event = session.receive(frame)
    _, peak = tracemalloc.get_traced_memory()
    room = MEMORY_BASE + MEMORY_FACTOR * (len(frame) + gathered)
    assert peak - held <= room, f"{peak - held} bytes for a frame of {len(frame)}"
    assert isinstance(event, SessionClosed) == (
        before is not SessionState.CLOSED and session.state is SessionState.CLOSED
    )
    if before is SessionState.CLOSED:
        assert event is None
    return event


def _take_what_is_said(session: Session) -> None:
    while (frame := session.next_frame()) is not None:
        assert len(frame) <= session.limits.frame_size_max or session.state is not SessionState.OPEN
