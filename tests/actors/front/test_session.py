"""The session of a client without a socket: requests in, answers out, and what it does when there is no room."""

from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delivery.requests import CommitOffset, SettleRuns
from goqueue.actors.front.bounds import Bounds
from goqueue.actors.front.responders import AwaitedAnswer
from goqueue.actors.front.serving import SERVING
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.groups import requests as ask
from goqueue.core.ledger.settlements import Action
from goqueue.errors import ActorDied, GoQueueError, ProtocolError, UnknownGroup
from goqueue.net.wire.errors import GoingAway
from goqueue.net.wire.groups import (
    CommitPartition,
    DeliveryRun,
    Heartbeat,
    OffsetsCommitted,
    ReceivePartition,
    ResetGroup,
    Settle,
    Settled,
    SettledDelivery,
    SettleDelivery,
)
from goqueue.net.wire.kinds import ANSWERS
from goqueue.net.wire.messages import Stats, StatsReport
from tests.actors.front.connectionstage import MEMBERSHIP, TOPIC, Stage, delivery, staged
from tests.net import bodies

JOIN = bodies.join("g", "m", "test", ("orders",), {})
MAILBOX_SIZE = 1_000


def ack(nonce: int, partition: int = 0) -> SettleDelivery:
    return bodies.settle(TOPIC, partition, nonce, int(Action.ACK), (DeliveryRun(0, 9, 1),))


def session_of(stage: Stage, bounds: Bounds | None = None) -> BrokerSession:
    return BrokerSession(stage.broker, SERVING, bounds or Bounds(), address="127.0.0.1:5000")


def nonces(stage: Stage) -> list[int]:
    return [each.nonce for each in stage.partitions[0].asked if isinstance(each, SettleRuns)]


async def learn_of_partition(session: BrokerSession) -> None:
    await session.call(Settle("g", (ack(0),)))


def test_every_kind_of_request_is_served() -> None:
    assert set(SERVING.begun) | set(SERVING.answered) == set(ANSWERS)


async def test_a_bug_in_the_broker_costs_the_request_that_met_it_and_nothing_else(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def stumble(_session: BrokerSession, _request: object) -> StatsReport:
        raise FileNotFoundError("a file that was there a moment ago")

    async with staged() as stage:
        serving = replace(SERVING, answered={**SERVING.answered, Stats: stumble})
        session = BrokerSession(stage.broker, serving, Bounds(), address="127.0.0.1:5000")
        with pytest.raises(ActorDied, match="the log of the broker says why"):
            await session.call(Stats())
        assert "stats could not be served" in caplog.text
        membership: object = await session.call(JOIN)
        assert membership == MEMBERSHIP


async def test_a_call_returns_the_answer_or_raises_the_error(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        session = session_of(stage)
        membership: object = await session.call(JOIN)
        assert membership == MEMBERSHIP
        assert await session.call(Settle("g", (ack(1),))) == Settled((SettledDelivery(None),))
        with pytest.raises(UnknownGroup):
            await session.call(ResetGroup("other", None, None, "latest"))
        with pytest.raises(GoQueueError, match="name"):
            await session.call(Settle("a/b", ()))


async def test_a_call_is_held_to_the_bounds_of_a_frame(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        with pytest.raises(ProtocolError, match="partition"):
            await session_of(stage).call(Settle("g", (ack(1)._replace(partition=-1),)))
        assert stage.partitions[0].asked == []


async def test_a_request_to_a_known_partition_needs_no_task_and_no_wait(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        session = session_of(stage)
        await learn_of_partition(session)
        answer = AwaitedAnswer("1")
        assert session.take(Settle("g", (ack(1),)), answer, stage.nursery) is None
        assert session.settles.amount == 2, "it is under way before anybody else has run"
        await answer.wait()
        assert answer.outcome == Settled((SettledDelivery(None),))


async def test_an_unknown_partition_is_found_before_the_next_request_is_taken(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        session, answer = session_of(stage), AwaitedAnswer("1")
        rest = session.take(Settle("g", (ack(1), ack(2))), answer, stage.nursery)
        assert rest is not None
        await rest
        await answer.wait()
        assert nonces(stage) == [1, 2]


async def fill_mailbox(stage: Stage, session: BrokerSession) -> trio.Event:
    """The partition works on one request and has no room for more, until the gate is opened."""
    gate = stage.partitions[0].gate = trio.Event()
    session.take(Settle("g", (ack(1),)), AwaitedAnswer("1"), stage.nursery)
    await wait_all_tasks_blocked()
    for nonce in range(2, MAILBOX_SIZE + 2):
        assert session.take(Settle("g", (ack(nonce),)), AwaitedAnswer("2"), stage.nursery) is None
    return gate


async def test_a_request_that_is_given_up_while_its_partition_has_no_room_is_not_done_and_not_said_to_be(
    autojump_clock: MockClock,
) -> None:
    """G1"""
    async with staged() as stage:
        session = session_of(stage)
        await learn_of_partition(session)
        gate = await fill_mailbox(stage, session)
        last, answer = MAILBOX_SIZE + 2, AwaitedAnswer("3")
        rest = session.take(Settle("g", (ack(last), ack(last + 1))), answer, stage.nursery)
        assert rest is not None
        with trio.move_on_after(1) as patience:
            await rest
        assert patience.cancelled_caught, "it waits for room"
        gate.set()
        await wait_all_tasks_blocked()
        assert isinstance(answer.outcome, Settled)
        codes = [each.error and each.error.code for each in answer.outcome.deliveries]
        assert codes == [GoingAway.code, GoingAway.code]
        assert nonces(stage) == [0, *range(1, MAILBOX_SIZE + 2)]
        assert session.settles.amount == 0
        assert await session.call(Settle("g", (ack(last),))) == Settled((SettledDelivery(None),))


async def test_requests_that_waited_for_room_come_in_order(autojump_clock: MockClock) -> None:
    """G11"""
    async with staged() as stage:
        session = session_of(stage)
        await learn_of_partition(session)
        gate = await fill_mailbox(stage, session)
        more = tuple(ack(nonce) for nonce in range(MAILBOX_SIZE + 2, MAILBOX_SIZE + 20))
        stage.nursery.start_soon(session.call, Settle("g", more))
        await wait_all_tasks_blocked()
        gate.set()
        await wait_all_tasks_blocked()
        assert nonces(stage) == list(range(MAILBOX_SIZE + 20))


async def test_a_client_with_too_much_under_way_is_held_up(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        session = session_of(stage, Bounds(settling_runs_max=4))
        await learn_of_partition(session)
        gate = stage.partitions[0].gate = trio.Event()
        for nonce in (1, 2):
            assert session.take(Settle("g", (ack(nonce),)), AwaitedAnswer("1"), stage.nursery) is None
        answer = AwaitedAnswer("2")
        rest = session.take(Settle("g", (ack(3),)), answer, stage.nursery)
        assert rest is not None
        gate.set()
        await rest
        await answer.wait()
        assert nonces(stage) == [0, 1, 2, 3]
        assert session.settles.amount == 0


async def test_a_call_that_is_cancelled_while_it_waits_for_room_leaves_nothing_behind(
    autojump_clock: MockClock,
) -> None:
    async with staged() as stage:
        session = session_of(stage, Bounds(settling_runs_max=1))
        gate = stage.partitions[0].gate = trio.Event()
        stage.nursery.start_soon(session.call, Settle("g", (ack(1),)))
        await wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await session.call(Settle("g", (ack(2),)))
        assert session.settles.amount == 2
        gate.set()
        await wait_all_tasks_blocked()
        assert session.settles.amount == 0
        assert nonces(stage) == [1]


async def test_a_cancelled_call_ends_its_long_poll_and_what_comes_is_given_to_others(
    autojump_clock: MockClock,
) -> None:
    """PITFALLS: a poll whose client has gone takes nothing."""
    async with staged() as stage:
        session = session_of(stage)
        where = (ReceivePartition(TOPIC, 0),)
        poll = bodies.receive("g", "m", 3, 30_000, 10, 1_000, 1_000, False, where)
        with trio.move_on_after(1):
            await session.call(poll)
        takes = len(stage.partitions[0].takes())
        stage.partitions[0].give(delivery(1, 0, 9))
        await wait_all_tasks_blocked()
        assert len(stage.partitions[0].takes()) == takes


async def test_commits_of_a_member_pass_without_a_task_and_those_from_outside_through_the_group(
    autojump_clock: MockClock,
) -> None:
    async with staged() as stage:
        session = session_of(stage)
        where = (CommitPartition(TOPIC, 0, 5),)
        answer = await session.call(bodies.commit("g", "m", 3, where))
        assert isinstance(answer, OffsetsCommitted)
        assert [each.offset for each in stage.partitions[0].asked if isinstance(each, CommitOffset)] == [5]


async def test_a_closed_session_tells_its_groups_and_ends_its_polls(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        session = session_of(stage)
        await session.call(JOIN)
        outcomes: list[GoQueueError] = []

        async def beat() -> None:
            with pytest.raises(GoingAway) as caught:
                await session.call(Heartbeat("g", "m", 3, 30_000, 1))
            outcomes.append(caught.value)

        stage.nursery.start_soon(beat)
        await wait_all_tasks_blocked()
        session.close()
        await wait_all_tasks_blocked()
        assert len(outcomes) == 1
        assert stage.group.heard_of(ask.MemberLost) == [ask.MemberLost("m", session.number)]
        assert stage.broker.statistics.groups.members == 0


async def test_sessions_have_numbers_of_their_own_whatever_way_they_came_in(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        numbers = {session_of(stage).number for _ in range(3)}
        assert len(numbers) == 3
        assert stage.client.connection._broker_session.number not in numbers
