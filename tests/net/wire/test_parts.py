"""Messages larger than a frame."""

import tracemalloc
from itertools import islice

import pytest

from goqueue.errors import GoQueueError, ProtocolError
from goqueue.net.session.events import AnswerReceived, Event, Refused, RequestFailed, RequestReceived, SessionClosed
from goqueue.net.session.machine import SessionState
from goqueue.net.session.server import ServerSession
from goqueue.net.wire.codec import decode, encode
from goqueue.net.wire.errors import FrameTooLarge, TooManyRequests
from goqueue.net.wire.limits import FRAME_SIZE_MAX, Limits
from goqueue.net.wire.messages import (
    AlterTopic,
    Done,
    Error,
    Hello,
    Part,
    Purge,
    Stats,
    StatsReport,
    TopicDescription,
    Topics,
)
from goqueue.net.wire.parts import Room
from tests.net.ends import SMALL, joined, only, take_all

LARGE = AlterTopic("orders", {"text": "x" * 1000})
REPORT = StatsReport({"text": "y" * 1000})


def parts_of(message: bytes, correlation: int, size: int = 100) -> list[bytes]:
    pieces = range(0, len(message), size)
    return [encode(Part(len(message), at, message[at : at + size]), correlation) for at in pieces]


def refusal(event: Event | None) -> GoQueueError:
    assert isinstance(event, Refused)
    return event.error


def answers_of(server: ServerSession) -> list[tuple[int, str]]:
    found = []
    while (frame := server.next_frame()) is not None:
        correlation, body, _ = decode(frame, FRAME_SIZE_MAX)
        assert isinstance(body, Error)
        found.append((correlation, body.code))
    return found


def test_a_large_message_arrives_whole() -> None:
    client, server = joined(SMALL, SMALL)
    correlation = client.request(LARGE)
    frames = []
    while (frame := client.next_frame()) is not None:
        frames.append(frame)
    assert len(frames) == 5
    assert all(len(frame) <= SMALL.frame_size_max for frame in frames)
    assert [server.receive(frame) for frame in frames] == [None] * 4 + [RequestReceived(correlation, LARGE)]


def test_small_answers_overtake_a_large_one() -> None:
    client, server = joined(SMALL, SMALL)
    large, small = client.request(Stats()), client.request(Purge("a"))
    take_all(client, server)
    server.answer(large, REPORT)
    first = server.next_frame() or b""
    server.answer(small, Done())
    assert client.receive(first) is None
    assert take_all(server, client) == [AnswerReceived(small, Done()), AnswerReceived(large, REPORT)]


def test_large_answers_share_the_connection() -> None:
    client, server = joined(SMALL, SMALL)
    ids = [client.request(Stats()), client.request(Stats())]
    take_all(client, server)
    for correlation in ids:
        server.answer(correlation, REPORT, throttle_ms=3)
    order = []
    while (frame := server.next_frame()) is not None:
        order.append(decode(frame, FRAME_SIZE_MAX).correlation)
        client.receive(frame)
    assert order == ids * 5
    assert client.under_way == ()


@pytest.mark.parametrize("size", [1000, 3500])
def test_no_end_sends_more_at_once_than_the_other_puts_together(size: int) -> None:
    """By their number, and by their bytes."""
    client, server = joined(SMALL, SMALL)
    ids = [client.request(AlterTopic("a", {"text": "x" * size})) for _ in range(4)]
    assert len(take_all(client, server)) == 4
    answer = Topics((TopicDescription("a", bytes(16), {"text": "y" * size}, ()),))
    for correlation in ids:
        server.answer(correlation, answer)
    assert take_all(server, client) == [AnswerReceived(correlation, answer) for correlation in ids]


def test_small_answers_overtake_large_ones_that_wait_for_their_turn() -> None:
    client, server = joined(SMALL, SMALL)
    ids = [client.request(request) for request in (Stats(), Stats(), Stats(), Purge("a"))]
    take_all(client, server)
    for correlation in ids[:3]:
        server.answer(correlation, REPORT)
    server.answer(ids[3], Done())
    assert take_all(server, client)[0] == AnswerReceived(ids[3], Done())


def test_closing_forgets_what_was_being_cut() -> None:
    client, server = joined(SMALL, SMALL)
    ids = [client.request(Stats()) for _ in range(3)]
    take_all(client, server)
    for correlation in ids:
        server.answer(correlation, REPORT)
    server.next_frame()
    server.close()
    assert server.next_frame() is None
    assert server.bytes_waiting == 0


def test_bytes_waiting_says_what_is_still_to_be_sent() -> None:
    client, _ = joined(SMALL, SMALL)
    client.request(LARGE)
    before = client.bytes_waiting
    assert before > 1000
    client.next_frame()
    assert 0 < client.bytes_waiting < before
    while client.next_frame() is not None:
        pass
    assert client.bytes_waiting == 0


def test_a_request_larger_than_a_message_is_refused_at_home() -> None:
    client, _ = joined(Limits(), Limits(message_size_max=2 * FRAME_SIZE_MAX))
    with pytest.raises(FrameTooLarge):
        client.request(AlterTopic("a", {"b": b"x" * 2 * FRAME_SIZE_MAX}))
    assert client.under_way == ()
    assert client.next_frame() is None
    assert client.request(Stats()) == 1


def test_an_answer_larger_than_a_message_becomes_an_error() -> None:
    client, server = joined(SMALL, SMALL)
    correlation = client.request(Stats())
    take_all(client, server)
    server.answer(correlation, StatsReport({"text": "y" * 5000}))
    event = only(take_all(server, client))
    assert isinstance(event, RequestFailed)
    assert isinstance(event.error, FrameTooLarge)
    assert server.under_way == ()


def test_a_message_announced_too_large_is_refused_at_its_first_part_and_passed_over() -> None:
    """G14: sizes are checked before memory is taken."""
    _, server = joined(server_limits=SMALL)
    frames = parts_of(b"x" * (SMALL.message_size_max + 1), 5)
    assert isinstance(refusal(server.receive(frames[0])), FrameTooLarge)
    assert [server.receive(frame) for frame in frames[1:]] == [None] * (len(frames) - 1)
    assert answers_of(server) == [(5, "frame_too_large")]
    assert server.receive(encode(Stats(), 5)) == RequestReceived(5, Stats())


def test_a_refused_id_may_begin_again() -> None:
    _, server = joined(server_limits=SMALL)
    server.receive(parts_of(b"x" * (SMALL.message_size_max + 1), 5)[0])
    events = [server.receive(frame) for frame in parts_of(encode(LARGE, 5), 5)]
    assert events[-1] == RequestReceived(5, LARGE)


def test_partial_messages_are_bounded_in_number() -> None:
    _, server = joined(server_limits=SMALL)
    messages = {number: parts_of(encode(LARGE, number), number) for number in (1, 2, 3)}
    assert server.receive(messages[1][0]) is None
    assert server.receive(messages[2][0]) is None
    error = refusal(server.receive(messages[3][0]))
    assert isinstance(error, TooManyRequests)
    assert error.retryable
    assert [server.receive(frame) for frame in messages[1][1:]][-1] == RequestReceived(1, LARGE)
    assert [server.receive(frame) for frame in messages[3]][-1] == RequestReceived(3, LARGE)


def test_partial_messages_are_bounded_in_bytes() -> None:
    _, server = joined(server_limits=SMALL)
    assert server.receive(encode(Part(4000, 0, b"x"), 1)) is None
    assert isinstance(refusal(server.receive(encode(Part(2001, 0, b"x"), 2))), TooManyRequests)
    assert server.receive(encode(Part(2000, 0, b"x"), 3)) is None


@pytest.mark.parametrize(
    "second",
    [
        Part(1000, 50, b"x"),
        Part(1000, 150, b"x"),
        Part(1000, 0, b"x"),
        Part(999, 100, b"x"),
        Part(1000, 100, b""),
        Part(1000, 100, b"x" * 901),
    ],
)
def test_a_part_that_does_not_fit_refuses_its_message_alone(second: Part) -> None:
    _, server = joined()
    server.receive(encode(Part(1000, 0, b"x" * 100), 5))
    assert isinstance(refusal(server.receive(encode(second, 5))), ProtocolError)
    assert server.receive(encode(Stats(), 6)) == RequestReceived(6, Stats())
    assert answers_of(server) == [(5, "protocol_error")]


def test_a_message_that_begins_in_its_middle_is_refused() -> None:
    _, server = joined()
    assert isinstance(refusal(server.receive(encode(Part(1000, 5, b"x"), 5))), ProtocolError)


def test_an_unreadable_part_refuses_its_message() -> None:
    _, server = joined()
    server.receive(encode(Part(1000, 0, b"x"), 5))
    assert isinstance(refusal(server.receive(b"\x93\x05\x05\x93\x01\x01\x01")), ProtocolError)


@pytest.mark.parametrize(
    "inside", [encode(Stats(), 6), encode(Part(9, 0, b"x"), 5), encode(Topics(()), 5), b"\xc1" * 9]
)
def test_parts_hold_a_request_of_their_own_id(inside: bytes) -> None:
    _, server = joined()
    events = [server.receive(frame) for frame in parts_of(inside, 5, size=3)]
    assert isinstance(refusal(events[-1]), ProtocolError)
    assert server.state is SessionState.OPEN


def test_a_part_under_an_id_in_use_closes() -> None:
    _, server = joined()
    server.receive(encode(Stats(), 5))
    assert isinstance(server.receive(encode(Part(9, 0, b"x"), 5)), SessionClosed)


def test_a_request_under_the_id_of_a_partial_message_closes() -> None:
    _, server = joined()
    server.receive(encode(Part(9, 0, b"x"), 5))
    assert isinstance(server.receive(encode(Stats(), 5)), SessionClosed)


def test_a_part_without_an_id_closes() -> None:
    _, server = joined()
    assert isinstance(server.receive(encode(Part(9, 0, b"x"), 0)), SessionClosed)


def test_a_bad_part_of_an_answer_fails_its_request_alone() -> None:
    client, _ = joined()
    ids = [client.request(Stats()), client.request(Stats())]
    client.receive(encode(Part(100, 0, b"x"), ids[0]))
    event = client.receive(encode(Part(100, 7, b"x"), ids[0]))
    assert isinstance(event, RequestFailed)
    assert event.correlation == ids[0]
    assert isinstance(client.receive(encode(Part(100, 8, b"x"), ids[0])), Refused)
    assert client.under_way == (ids[1],)


def test_an_answer_after_some_of_its_parts_frees_their_room() -> None:
    client, _ = joined(SMALL, SMALL)
    for _ in range(SMALL.partial_messages_max + 1):
        correlation = client.request(Stats())
        assert client.receive(encode(Part(100, 0, b"x"), correlation)) is None
        assert isinstance(client.receive(encode(Error("closed", "", False, {}), correlation)), RequestFailed)


def test_a_message_in_tiny_parts_costs_its_size() -> None:
    """G14."""
    _, server = joined()
    message = encode(AlterTopic("a", {"b": b"x" * 60_000}), 5)
    frames = parts_of(message, 5, size=2)
    tracemalloc.start()
    try:
        assert all(server.receive(frame) is None for frame in islice(frames, len(frames) - 1))
        assert tracemalloc.get_traced_memory()[1] < 3 * len(message)
    finally:
        tracemalloc.stop()
    assert isinstance(server.receive(frames[-1]), RequestReceived)


def test_refused_messages_are_not_remembered_without_end() -> None:
    _, server = joined(server_limits=SMALL)
    for number in range(1, 5000):
        server.receive(encode(Part(5000, 0, b"x"), number))
        server.next_frame()
    assert len(server._assembly._passed_over) == 1024


def test_sessions_that_share_room_hold_no_more_than_that_together_and_give_all_of_it_back() -> None:
    """G14: each alone may hold 66 MiB, and there may be thousands of them."""
    room = Room(250)
    first, second = (opened(room) for _ in range(2))
    assert first.receive(encode(Part(1_000, 0, bytes(100)), 1)) is None
    assert second.receive(encode(Part(1_000, 0, bytes(100)), 1)) is None
    error = refusal(second.receive(encode(Part(1_000, 100, bytes(100)), 1)))
    assert isinstance(error, TooManyRequests)
    assert error.retryable
    assert room.left == 150
    message = encode(AlterTopic("a", {"b": bytes(50)}), 2)
    assert isinstance(second.receive(encode(Part(len(message), 0, message), 2)), RequestReceived)
    first.forget_parts()
    assert room.left == 250


def opened(room: Room) -> ServerSession:
    server = ServerSession(bytes(16), "node-1", room=room)
    server.receive(encode(Hello(1, (), "tests")))
    server.welcome()
    server.next_frame()
    return server
