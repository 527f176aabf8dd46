"""Two joined sessions under any interleaving: every request gets its own answer, once, whatever its size.

Hypothesis moves frames and calls as it likes; a dict says what each request should bring. Small limits make the
messages travel in parts and the bounds be met.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from goqueue.errors import OffsetOutOfRange
from goqueue.net.session.client import ClientSession
from goqueue.net.session.events import (
    AnswerReceived,
    Event,
    GoAwayReceived,
    Refused,
    RequestFailed,
    RequestReceived,
)
from goqueue.net.session.machine import SessionState
from goqueue.net.wire.codec import encode
from goqueue.net.wire.errors import GoingAway, TooManyRequests
from goqueue.net.wire.kinds import Body
from goqueue.net.wire.messages import AlterTopic, Stats, StatsReport, TopicDescription, Topics
from tests.net.ends import HELLO, SMALL, Wire, joined, new_server
from tests.net.strategies import any_body, any_request, correlations

sizes = st.sampled_from([0, 10, 200, 900, 2500])


class TwoEnds(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.client, self.server = joined(replace(SMALL, requests_max=8), SMALL)
        self.up, self.down = Wire(self.client, self.server), Wire(self.server, self.client)
        self.asked: dict[int, str] = {}
        self.waiting: dict[int, str] = {}
        self.settled: dict[int, str] = {}
        self.said_go_away = False

    @rule(size=sizes, letter=st.sampled_from("abc"))
    def ask(self, size: int, letter: str) -> None:
        name = letter + str(len(self.asked))
        try:
            correlation = self.client.request(AlterTopic(name, {"filling": "x" * size}))
        except TooManyRequests:
            assert len(self.client.under_way) == 8
        except GoingAway:
            assert self.client.state is SessionState.LEAVING
        else:
            assert correlation not in self.asked
            self.asked[correlation] = name

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), size=sizes, throttle_ms=st.integers(0, 3))
    def answer(self, data: st.DataObject, size: int, throttle_ms: int) -> None:
        correlation = data.draw(st.sampled_from(sorted(self.waiting)))
        name = self.waiting.pop(correlation)
        topic = TopicDescription(name, bytes(16), {"filling": "y" * size}, ())
        self.server.answer(correlation, Topics((topic,)), throttle_ms)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        correlation = data.draw(st.sampled_from(sorted(self.waiting)))
        self.server.refuse(correlation, OffsetOutOfRange(self.waiting.pop(correlation)))

    @rule()
    def say_go_away(self) -> None:
        if len(self.asked) > 12:
            self.server.go_away("restart")
            self.said_go_away = True

    @rule(wire=st.sampled_from(["up", "down"]), count=st.integers(1, 6))
    def send(self, wire: str, count: int) -> None:
        for _ in range(count):
            getattr(self, wire).send()

    @rule(count=st.integers(1, 6))
    def arrive_at_server(self, count: int) -> None:
        for _ in range(count):
            self.note_at_server(self.up.arrive())

    @rule(count=st.integers(1, 6))
    def arrive_at_client(self, count: int) -> None:
        for _ in range(count):
            self.note_at_client(self.down.arrive())

    def note_at_server(self, event: Event | None) -> None:
        if isinstance(event, RequestReceived):
            assert isinstance(event.request, AlterTopic)
            assert self.asked[event.correlation] == event.request.name
            assert not self.said_go_away
            self.waiting[event.correlation] = event.request.name
            assert len(self.waiting) <= SMALL.requests_max
        elif event is not None:
            assert isinstance(event, Refused)
            assert isinstance(event.error, TooManyRequests | GoingAway)

    def note_at_client(self, event: Event | None) -> None:
        if isinstance(event, AnswerReceived):
            assert isinstance(event.answer, Topics)
            self.settle(event.correlation, event.answer.topics[0].name)
        elif isinstance(event, RequestFailed):
            refused_for_room = isinstance(event.error, TooManyRequests | GoingAway)
            self.settle(
                event.correlation, self.asked[event.correlation] if refused_for_room else event.error.message
            )
        else:
            assert event is None or isinstance(event, GoAwayReceived)

    def settle(self, correlation: int, name: str) -> None:
        assert correlation not in self.settled
        assert self.asked[correlation] == name
        self.settled[correlation] = name

    def teardown(self) -> None:
        """Let everything arrive, answer what waits, and see that nothing is left over."""
        for _ in range(3):
            self.move_everything()
            for correlation, name in self.waiting.items():
                self.server.answer(correlation, Topics((TopicDescription(name, bytes(16), {}, ()),)))
            self.waiting.clear()
        assert self.settled == self.asked
        assert self.client.under_way == self.server.under_way == ()
        assert self.client.bytes_waiting == self.server.bytes_waiting == 0

    def move_everything(self) -> None:
        while self.client.bytes_waiting or self.server.bytes_waiting or self.up.frames or self.down.frames:
            self.up.send()
            self.down.send()
            self.note_at_server(self.up.arrive())
            self.note_at_client(self.down.arrive())


TestTwoEnds = TwoEnds.TestCase


def hostile_frames() -> st.SearchStrategy[bytes]:
    def changed(frame: bytes, at: int, byte: int) -> bytes:
        at %= len(frame)
        return frame[:at] + bytes([byte]) + frame[at + 1 :]

    sound = st.builds(encode, any_body, correlations | st.integers(0, 5), st.integers(0, 3))
    spoiled = st.builds(changed, sound, st.integers(0, 200), st.integers(0, 255))
    return sound | spoiled | st.binary(max_size=40)


@given(st.lists(hostile_frames(), max_size=12), st.booleans())
def test_a_server_survives_whatever_a_client_sends(frames: list[bytes], greeted: bool) -> None:
    """G14: each frame is taken, refused with an error, or closes; nothing raises."""
    server = joined(SMALL, SMALL)[1] if greeted else new_server(SMALL)
    for frame in frames:
        event = server.receive(frame)
        if isinstance(event, Refused):
            assert server.next_frame() is not None
        assert len(server.under_way) <= SMALL.requests_max
    if server.state in (SessionState.OPEN, SessionState.LEAVING):
        assert isinstance(server.receive(encode(Stats(), 4_000_000_001)), RequestReceived | Refused)


@given(st.lists(any_request, max_size=3), st.lists(hostile_frames(), max_size=12), st.booleans())
def test_a_client_survives_whatever_a_server_sends(
    requests: list[Body], frames: list[bytes], greeted: bool
) -> None:
    """G14."""
    client = joined(SMALL, SMALL)[0] if greeted else ClientSession(SMALL)
    if greeted:
        wanted = client.request(Stats())
    else:
        client.hello(HELLO)
    for frame in frames:
        client.receive(frame)
    if (
        greeted
        and client.state is SessionState.OPEN
        and wanted in client.under_way
        and wanted not in client._assembly
    ):
        assert client.receive(encode(StatsReport({}), wanted)) == AnswerReceived(wanted, StatsReport({}))
