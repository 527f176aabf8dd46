"""A session's rules, told by two ends joined by hand."""

from dataclasses import replace

import pytest

from goqueue.errors import Closed, OffsetOutOfRange, ProtocolError
from goqueue.net.session.client import ClientSession
from goqueue.net.session.events import (
    AnswerReceived,
    GoAwayReceived,
    HelloReceived,
    Refused,
    RequestFailed,
    RequestReceived,
    SessionClosed,
    Welcomed,
)
from goqueue.net.session.machine import TRANSITIONS, Session, SessionState, Step
from goqueue.net.wire.codec import CORRELATION_MAX, encode
from goqueue.net.wire.errors import GoingAway, TooManyRequests, UnknownKind, UnsupportedVersion, WrongCluster
from goqueue.net.wire.groups import DeliveryRun, Settle
from goqueue.net.wire.limits import Limits
from goqueue.net.wire.messages import (
    Done,
    Error,
    GoAway,
    OffsetFound,
    Part,
    Purge,
    Stats,
    StatsReport,
    Topics,
    Welcome,
)
from tests.net import bodies
from tests.net.ends import CLUSTER, HELLO, SMALL, joined, new_server, only, take_all
from tests.net.wire.test_codec import packed

WELCOME = Welcome(1, (), CLUSTER, "node-1", 1024 * 1024, 2 * 1024 * 1024)


def closed_by(event: object) -> str:
    assert isinstance(event, SessionClosed)
    return event.error.code


def states(*ends: Session) -> tuple[SessionState, ...]:
    return tuple(end.state for end in ends)


def test_both_ends_greet_and_agree() -> None:
    client, server = ClientSession(), new_server()
    client.hello(HELLO)
    assert take_all(client, server) == [HelloReceived(HELLO, 1)]
    assert states(client, server) == (SessionState.GREETING, SessionState.GREETING)
    server.welcome()
    limits = Limits()
    welcome = Welcome(1, ("zstd",), CLUSTER, "node-1", limits.frame_size_max, limits.message_size_max)
    assert take_all(server, client) == [Welcomed(welcome)]
    assert states(client, server) == (SessionState.OPEN, SessionState.OPEN)


@pytest.mark.parametrize(
    "frame",
    [
        encode(Stats(), 1),
        encode(Done(), 1),
        encode(WELCOME),
        encode(GoAway("", 0)),
        encode(Part(9, 0, b"x"), 1),
        packed(999, []),
        packed(1, [1, []]),
        b"\xc1",
    ],
)
def test_anything_but_hello_at_the_start_closes(frame: bytes) -> None:
    server, client = new_server(), ClientSession()
    client.hello(HELLO)
    assert closed_by(server.receive(frame)) in ("protocol_error", "unknown_kind")
    assert states(server) == (SessionState.CLOSED,)
    assert closed_by(only(take_all(server, client))) in ("protocol_error", "unknown_kind")
    assert server.receive(encode(HELLO)) is None


def test_a_second_hello_closes() -> None:
    _, server = joined()
    assert closed_by(server.receive(encode(HELLO))) == "protocol_error"


def test_a_request_before_the_welcome_closes() -> None:
    server = new_server()
    server.receive(encode(HELLO))
    assert closed_by(server.receive(encode(Stats(), 1))) == "protocol_error"


def test_a_newer_client_gets_the_highest_version_there_is() -> None:
    server = new_server()
    assert server.receive(encode(HELLO._replace(protocol_version=9))) == HelloReceived(
        HELLO._replace(protocol_version=9), 1
    )


def test_no_common_version_is_said_before_closing() -> None:
    client, server = ClientSession(), new_server()
    client.hello(HELLO._replace(protocol_version=0))
    assert closed_by(only(take_all(client, server))) == "unsupported_version"
    event = only(take_all(server, client))
    assert isinstance(event, SessionClosed)
    assert isinstance(event.error, UnsupportedVersion)
    assert event.error.details == {"lowest": 1, "highest": 1}
    assert client.state is SessionState.CLOSED


def test_a_welcome_of_a_version_the_client_does_not_speak_closes() -> None:
    client = ClientSession()
    client.hello(HELLO)
    assert closed_by(client.receive(encode(WELCOME._replace(protocol_version=2)))) == "unsupported_version"


@pytest.mark.parametrize("welcome", [WELCOME._replace(frame_size_max=0), WELCOME._replace(message_size_max=70_000)])
def test_a_welcome_with_impossible_sizes_closes(welcome: Welcome) -> None:
    client = ClientSession()
    client.hello(HELLO)
    assert closed_by(client.receive(encode(welcome))) == "protocol_error"


def test_another_cluster_than_expected_is_refused() -> None:
    client, server = ClientSession(), new_server()
    client.hello(HELLO._replace(expected_cluster=bytes(16)))
    take_all(client, server)
    event = only(take_all(server, client))
    assert isinstance(event, SessionClosed)
    assert isinstance(event.error, WrongCluster)
    assert event.error.details == {"cluster": CLUSTER}


def test_a_client_that_expects_no_cluster_is_welcome() -> None:
    assert isinstance(new_server().receive(encode(HELLO._replace(expected_cluster=None))), HelloReceived)


def test_the_owner_may_refuse_the_credentials() -> None:
    client, server = ClientSession(), new_server()
    client.hello(HELLO)
    take_all(client, server)
    server.close(Closed("who are you?"))
    event = only(take_all(server, client))
    assert isinstance(event, SessionClosed)
    assert event.error.message == "who are you?"


def test_before_hello_frames_are_small() -> None:
    server = new_server(SMALL)
    assert closed_by(server.receive(encode(HELLO._replace(client_name="x" * 120)))) == "frame_too_large"


def test_answers_come_in_any_order_and_find_their_requests() -> None:
    client, server = joined()
    ids = [client.request(request) for request in (Stats(), Purge("a"), Purge("b"))]
    assert take_all(client, server) == [
        RequestReceived(ids[0], Stats()),
        RequestReceived(ids[1], Purge("a")),
        RequestReceived(ids[2], Purge("b")),
    ]
    server.refuse(ids[2], OffsetOutOfRange("no", start=1), throttle_ms=5)
    server.answer(ids[0], StatsReport({"a": 1}), throttle_ms=7)
    server.answer(ids[1], Done())
    refusal, *answers = take_all(server, client)
    assert isinstance(refusal, RequestFailed)
    assert isinstance(refusal.error, OffsetOutOfRange)
    assert (refusal.correlation, refusal.throttle_ms) == (ids[2], 5)
    assert answers == [AnswerReceived(ids[0], StatsReport({"a": 1}), 7), AnswerReceived(ids[1], Done())]
    assert client.under_way == server.under_way == ()


def test_an_id_in_use_cannot_be_used_again() -> None:
    _, server = joined()
    server.receive(encode(Stats(), 5))
    assert closed_by(server.receive(encode(Stats(), 5))) == "protocol_error"


def test_an_id_may_be_used_again_after_its_answer() -> None:
    _, server = joined()
    for _ in range(2):
        assert server.receive(encode(Stats(), 5)) == RequestReceived(5, Stats())
        server.answer(5, StatsReport({}))


def test_ids_begin_again_and_pass_over_those_in_use() -> None:
    client, _ = joined()
    assert client.request(Stats()) == 1
    client._last_correlation = CORRELATION_MAX - 1
    assert [client.request(Stats()) for _ in range(3)] == [CORRELATION_MAX, 2, 3]


def test_id_zero_asks_for_nothing() -> None:
    _, server = joined()
    assert closed_by(server.receive(encode(Stats(), 0))) == "protocol_error"


@pytest.mark.parametrize("answer", [encode(Done(), 9), encode(Error("closed", "", False, {}), 9), packed(999, [])])
def test_an_answer_that_nobody_asked_for_changes_nothing(answer: bytes) -> None:
    client, _ = joined()
    wanted = client.request(Stats())
    assert isinstance(client.receive(answer), Refused)
    assert client.receive(encode(StatsReport({}), wanted)) == AnswerReceived(wanted, StatsReport({}))
    assert isinstance(client.receive(encode(StatsReport({}), wanted)), Refused)


@pytest.mark.parametrize(
    "answer", [encode(OffsetFound(1), 1), packed(999, [], correlation=1), packed(41, 5, correlation=1)]
)
def test_an_answer_that_makes_no_sense_fails_its_request_alone(answer: bytes) -> None:
    client, _ = joined()
    ids = [client.request(Stats()), client.request(Stats())]
    event = client.receive(answer)
    assert isinstance(event, RequestFailed)
    assert isinstance(event.error, ProtocolError)
    assert client.under_way == (ids[1],)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (packed(999, []), UnknownKind),
        (packed(26, [b"a"]), ProtocolError),
        (packed(26, []), ProtocolError),
        (encode(Topics(()), 7), ProtocolError),
        (encode(HELLO, 7), ProtocolError),
        (encode(GoAway("", 0), 7), ProtocolError),
        (encode(Error("closed", "", False, {}), 7), ProtocolError),
        (encode(Stats(), 7) + b"x", ProtocolError),
    ],
)
def test_a_bad_request_is_answered_and_the_session_goes_on(frame: bytes, expected: type[ProtocolError]) -> None:
    """G14."""
    client, server = joined()
    for _ in range(7):
        client.request(Stats())
    while client.next_frame() is not None:
        pass
    event = server.receive(frame)
    assert isinstance(event, Refused)
    assert type(event.error) is expected
    answer = only(take_all(server, client))
    assert isinstance(answer, RequestFailed)
    assert (answer.correlation, type(answer.error)) == (7, expected)
    assert server.receive(encode(Stats(), 8)) == RequestReceived(8, Stats())


@pytest.mark.parametrize("data", [b"", b"\xc1", b"hello", b"\x93\x28", packed(40, [], correlation=-1)])
def test_what_is_no_frame_closes_with_a_reason(data: bytes) -> None:
    """G14."""
    client, server = joined()
    client.request(Stats())
    assert closed_by(server.receive(data)) == "protocol_error"
    assert closed_by(only(take_all(server, client))) == "protocol_error"
    with pytest.raises(Closed):
        client.request(Stats())


def test_a_client_closes_too_when_it_cannot_read() -> None:
    client, server = joined()
    assert closed_by(client.receive(b"\xc1")) == "protocol_error"
    assert closed_by(only(take_all(client, server))) == "protocol_error"
    assert server.state is SessionState.CLOSED


def test_requests_under_way_are_bounded_at_both_ends() -> None:
    client, server = joined(server_limits=SMALL)
    ids = [client.request(Stats()) for _ in range(SMALL.requests_max + 1)]
    assert isinstance(take_all(client, server)[-1], Refused)
    refusal = only(take_all(server, client))
    assert isinstance(refusal, RequestFailed)
    assert isinstance(refusal.error, TooManyRequests)
    assert (refusal.correlation, refusal.error.retryable) == (ids[-1], True)
    server.answer(ids[0], StatsReport({}))
    assert server.receive(encode(Stats(), 77)) == RequestReceived(77, Stats())


def test_a_client_knows_its_own_bound() -> None:
    client, _ = joined(client_limits=SMALL)
    for _ in range(SMALL.requests_max):
        client.request(Stats())
    with pytest.raises(TooManyRequests):
        client.request(Stats())
    assert len(client.under_way) == SMALL.requests_max


def test_the_lists_of_a_request_are_bounded_all_together() -> None:
    """G14: lists in lists, in a message of 33 MiB, would be millions of items, which take seconds to read."""
    limits = replace(SMALL, items_max=30)
    client, server = joined(limits, limits)
    run = DeliveryRun(1, 9, 1)
    good = Settle("g", (bodies.settle(CLUSTER, 0, 1, 0, (run,) * 14),) * 2)
    bad = Settle("g", (bodies.settle(CLUSTER, 0, 1, 0, (run,) * 9),) * 3 + (bodies.settle(CLUSTER, 0, 1, 0, ()),))
    ids = [client.request(good), client.request(bad)]
    taken, refused = sorted(take_all(client, server), key=lambda event: getattr(event, "correlation", 0))
    assert taken == RequestReceived(ids[0], good)
    assert isinstance(refused, Refused)
    assert (refused.correlation, refused.error.code) == (ids[1], "protocol_error")
    assert "Settle.deliveries" in refused.error.message


def drained(*ends: Session) -> list[bool]:
    return [end.is_drained for end in ends]


def test_after_go_away_nothing_new_is_taken_and_everything_under_way_is_answered() -> None:
    client, server = joined()
    first, second = client.request(Stats()), client.request(Purge("crossing"))
    assert server.receive(client.next_frame() or b"") == RequestReceived(first, Stats())
    server.go_away("restart", 50)
    assert drained(server) == [False]
    assert take_all(server, client) == [GoAwayReceived("restart", 50)]
    with pytest.raises(GoingAway):
        client.request(Stats())

    crossed = only(take_all(client, server))
    assert isinstance(crossed, Refused)
    refusal = only(take_all(server, client))
    assert isinstance(refusal, RequestFailed)
    assert isinstance(refusal.error, GoingAway)
    assert (refusal.correlation, refusal.error.retryable) == (second, True)

    server.answer(first, StatsReport({}))
    assert drained(server, client) == [False, False]
    assert take_all(server, client) == [AnswerReceived(first, StatsReport({}))]
    assert drained(server, client) == [True, True]


def test_go_away_may_be_said_again() -> None:
    client, server = joined()
    server.go_away("soon", 1)
    server.go_away("now", 2)
    assert take_all(server, client) == [GoAwayReceived("soon", 1), GoAwayReceived("now", 2)]


def test_a_client_does_not_say_go_away() -> None:
    _, server = joined()
    assert closed_by(server.receive(encode(GoAway("", 0)))) == "protocol_error"


def test_after_the_end_nothing_is_answered_and_nothing_is_sent() -> None:
    client, server = joined()
    correlation = client.request(Stats())
    take_all(client, server)
    server.close()
    server.answer(correlation, StatsReport({}))
    server.refuse(correlation, Closed("late"))
    assert server.next_frame() is None
    assert server.receive(encode(Stats(), 9)) is None
    assert server.close(Closed("twice")).error.message == "twice"
    assert server.next_frame() is None


def test_an_error_with_more_details_than_there_is_room_for_is_sent_without_them() -> None:
    client, server = joined(SMALL, SMALL)
    ids = [client.request(Stats()), client.request(Stats())]
    take_all(client, server)
    server.refuse(ids[0], Closed("why", text="x" * 4090))
    refusal = only(take_all(server, client))
    assert isinstance(refusal, RequestFailed)
    assert (refusal.error.message, refusal.error.details) == ("why", {})
    server.close(Closed("why", text="x" * 200))
    event = only(take_all(server, client))
    assert isinstance(event, SessionClosed)
    assert (event.error.message, event.error.details) == ("why", {})


def test_asking_before_the_welcome_is_refused() -> None:
    client = ClientSession()
    with pytest.raises(ProtocolError):
        client.request(Stats())


def test_every_state_can_close_and_only_open_ones_lead_elsewhere() -> None:
    assert {state for state, step in TRANSITIONS if step is Step.CLOSE} == set(SessionState)
    assert [step for state, step in TRANSITIONS if state is SessionState.CLOSED] == [Step.CLOSE]


def test_a_lone_request_is_given_to_its_caller_and_a_large_one_goes_in_parts() -> None:
    client, server = joined(SMALL, SMALL)
    correlation, frame = client.ask(Stats(), is_lone=True)
    assert frame is not None
    assert client.next_frame() is None
    assert server.receive(frame) == RequestReceived(correlation, Stats())
    large = Purge("t" * 255)
    correlation, frame = client.ask(large, is_lone=True)
    assert frame is None
    assert take_all(client, server) == [RequestReceived(correlation, large)]
