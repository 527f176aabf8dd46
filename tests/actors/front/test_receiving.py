"""One receive from many partitions: what is taken, in which order, and what waiting costs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delivery.requests import AwaitDeliverable, SettleRuns, Take, Taken
from goqueue.actors.front.receiving import (
    FURTHER_SECONDS_MAX,
    NOTHING,
    Outcome,
    Place,
    await_deliverable,
    leads_on,
    take_what_is_there,
)
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.core.ledger.settlements import MESSAGES_MAX, Action
from goqueue.core.waiting.turns import FIRST_SECONDS_MAX, TOGETHER_BYTES_MAX, ReceiveLimits, ReceiveShare
from goqueue.errors import GoQueueError, StaleGeneration, Unavailable
from goqueue.net.wire import groups as wire
from tests.actors.front.connectionstage import TOPIC, Stage, StagePartition, alive, delivery, staged
from tests.net import bodies

LIMITS = ReceiveLimits(messages_max=100, bytes_max=1_000, lasts_max=100, is_busy=False)


def question(rest: ReceiveLimits) -> Take:
    return Take("g", "m", 3, rest.messages_max, rest.bytes_max, 30.0, rest.is_busy, rest.lasts_max)


@asynccontextmanager
async def two_partitions() -> AsyncIterator[tuple[list[StagePartition], list[ActorRef]]]:
    rows = [StagePartition(), StagePartition()]
    async with alive(rows[0], "p0") as first, alive(rows[1], "p1") as second:
        yield rows, [first, second]


async def take(
    places: Sequence[Place],
    limits: ReceiveLimits = LIMITS,
    order: Sequence[int] | None = None,
    seconds_max: float = inf,
) -> tuple[list[Outcome], bool]:
    """The outcomes, and whether the receive is full."""
    share = ReceiveShare(limits, order or range(len(places)), trio.current_time() + seconds_max)
    outcomes = await take_what_is_there(places, question, share)
    return outcomes, share.is_full(trio.current_time())


def firsts(outcomes: list[Outcome]) -> list[int | None]:
    """Of each, the first offset that was taken."""
    return [None if isinstance(each, GoQueueError) or not each.runs else each.runs[0].first for each in outcomes]


async def test_each_is_asked_for_what_the_ones_before_have_left() -> None:
    async with two_partitions() as (rows, refs):
        rows[0].give(delivery(1, 0, 29, data=bytes(400)))
        rows[1].give(delivery(2, 7, 9, data=bytes(100)))
        outcomes, is_full = await take(refs)
        assert not is_full
        assert firsts(outcomes) == [0, 7]
        [first], [second] = rows[0].takes(), rows[1].takes()
        assert (first.messages_max, first.bytes_max, first.is_busy) == (100, 1_000, False)
        assert (second.messages_max, second.bytes_max) == (70, 600)
        assert second.is_busy, "by then it holds something"
        assert (second.member, second.generation, second.visibility) == ("m", 3, 30.0)


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param(delivery(1, 0, 99), id="as many messages as were wanted"),
        pytest.param(delivery(1, 0, 0, data=bytes(1_000)), id="as many bytes"),
        pytest.param(delivery(1, 0, 0, is_alone=True), id="a message that is delivered alone"),
    ],
)
async def test_nobody_is_asked_behind(taken: Taken) -> None:
    """What would be taken there is under a lease, and could not be dropped (G7)."""
    async with two_partitions() as (rows, refs):
        rows[0].give(taken)
        rows[1].give(delivery(2, 7, 9))
        assert firsts((await take(refs))[0]) == [0, None]
        assert rows[1].asked == []


async def test_the_turn_begins_where_it_is_told_and_the_outcomes_keep_their_order() -> None:
    async with two_partitions() as (rows, refs):
        rows[0].give(delivery(1, 0, 99))
        rows[1].give(delivery(2, 100, 199))
        assert firsts((await take(refs, order=[1, 0]))[0]) == [None, 100]
        assert rows[0].asked == []


async def test_an_error_of_one_does_not_keep_the_others() -> None:
    async with two_partitions() as (rows, refs):
        rows[0].give(StaleGeneration("not yours"))
        rows[1].give(delivery(2, 7, 9))
        lost = StaleGeneration("unknown")
        outcomes, _ = await take([refs[0], lost, refs[1]])
        assert isinstance(outcomes[0], StaleGeneration)
        assert outcomes[1] is lost
        assert firsts(outcomes) == [None, None, 7]


@pytest.mark.parametrize(("seconds_max", "given"), [(1.4, [0, 7]), (0.9, [0, None])])
async def test_nobody_is_asked_when_the_time_is_up_and_something_was_taken(
    seconds_max: float, given: list[int | None], autojump_clock: MockClock
) -> None:
    async with two_partitions() as (rows, refs):
        rows[0].slowness = 1.0
        rows[0].give(delivery(1, 0, 0))
        rows[1].give(delivery(2, 7, 9))
        outcomes, is_full = await take(refs, seconds_max=seconds_max)
        assert (firsts(outcomes), is_full) == (given, None in given)


async def test_of_those_that_have_nothing_all_are_asked(autojump_clock: MockClock) -> None:
    async with two_partitions() as (rows, refs):
        rows[0].slowness = 1.0
        rows[1].give(delivery(2, 7, 9))
        outcomes, _ = await take(refs, seconds_max=0.5)
        assert firsts(outcomes) == [None, 7]


async def test_a_batch_that_would_make_the_answer_too_large_is_given_back() -> None:
    """Uncounted: nobody has seen it."""
    async with two_partitions() as (rows, refs):
        large = delivery(2, 7, 7, data=bytes(TOGETHER_BYTES_MAX))
        rows[0].give(delivery(1, 0, 0, data=b"x"))
        rows[1].give(large)
        assert await take(refs) == ([delivery(1, 0, 0, data=b"x"), NOTHING], True)
        await wait_all_tasks_blocked()
        assert rows[1].settles() == [SettleRuns("g", 2, Action.RELEASE, large.runs)]
        rows[1].give(large)
        assert await take(refs) == ([NOTHING, large], True), "and alone it is delivered"


async def test_a_further_partition_that_hangs_is_passed_over_and_those_behind_it_are_asked(
    autojump_clock: MockClock,
) -> None:
    """The lease of what was taken is already running."""
    async with two_partitions() as (rows, refs), alive(StagePartition(), "p2") as last:
        rows[0].give(delivery(1, 0, 9))
        rows[1].gate = trio.Event()
        rows[1].give(delivery(2, 0, 9))
        outcomes, _ = await take([*refs, last])
        assert firsts(outcomes) == [0, None, None]
        assert trio.current_time() <= 2 * FURTHER_SECONDS_MAX
        rows[1].gate.set()
        await wait_all_tasks_blocked()
        assert rows[1].unwanted == 1


async def test_the_first_partition_is_waited_for_while_nothing_was_taken(autojump_clock: MockClock) -> None:
    async with two_partitions() as (rows, refs):
        rows[0].slowness = 3.0
        rows[1].slowness = 2.0
        rows[1].give(delivery(2, 7, 9))
        outcomes, _ = await take(refs)
        assert firsts(outcomes) == [None, 7]


async def test_a_partition_without_room_in_its_mailbox_is_asked_when_it_has_some(autojump_clock: MockClock) -> None:
    row = StagePartition()
    async with two_partitions() as (rows, refs), running(ChildSpec("full", lambda: row, mailbox_size_max=1)) as ref:
        rows[0].give(delivery(1, 0, 9))
        row.give(delivery(2, 5, 9))
        row.gate = trio.Event()
        for _ in range(2):  # one is handled, the other fills the mailbox
            ref.cast(SettleRuns("g", 9, Action.ACK, ()))
            await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_later, row.gate)
            outcomes, _ = await take([refs[0], ref, refs[1]])
        assert firsts(outcomes) == [0, 5, None]


async def open_later(gate: trio.Event) -> None:
    await trio.sleep(FURTHER_SECONDS_MAX / 2)
    gate.set()


def test_what_leads_on() -> None:
    assert not leads_on(NOTHING)
    assert leads_on(delivery(1, 0, 0))
    assert leads_on(StaleGeneration("no"))
    waits = Taken(0, (), b"", is_alone=False, alone_waits=True)
    assert leads_on(waits), "who is not told to settle waits for ever"


async def test_waiting_ends_with_the_first_who_has_something(autojump_clock: MockClock) -> None:
    async with two_partitions() as (rows, refs), trio.open_nursery() as nursery:
        found: list[set[int]] = []

        async def wait() -> None:
            found.append(await await_deliverable(refs, AwaitDeliverable("g", "m", trio.current_time() + 30)))

        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert [len(row.waiting) for row in rows] == [1, 1]
        abandoned = rows[0].waiting[0]
        rows[1].give(delivery(2, 7, 9))
        await wait_all_tasks_blocked()
        assert found == [{1}], "the other has nothing, and need not be asked for it"
        assert not abandoned.wanted
    assert trio.current_time() < 1


async def test_waiting_ends_at_the_deadline(autojump_clock: MockClock) -> None:
    async with two_partitions() as (rows, refs):
        begin = trio.current_time()
        await await_deliverable(refs, AwaitDeliverable("g", "m", begin + 30))
        assert trio.current_time() - begin == pytest.approx(30)
        assert [row.takes() for row in rows] == [[], []]


# Over a connection


def receive(stage: Stage, **changes: object) -> wire.Receive:
    asked = bodies.receive("g", "m", 3, 30_000, 500, 1_000_000, 30_000, False, stage.where)
    return asked._replace(**changes)  # type: ignore[arg-type]


async def received(stage: Stage, **changes: object) -> tuple[wire.ReceivedPartition, ...]:
    answer = await stage.client.ask(receive(stage, **changes))
    assert isinstance(answer, wire.Received)
    return answer.partitions


async def test_two_receives_of_a_member_are_answered_in_the_order_in_which_messages_were_taken(
    autojump_clock: MockClock,
) -> None:
    """A second one with less to do would overtake the first, and the messages of a partition come out of order."""
    async with staged(2) as stage:
        await stage.client.ask(bodies.join("g", "m", "test", ("orders",), {}))
        for nonce in (1, 2):
            stage.partitions[0].give(delivery(nonce, 10 * nonce, 10 * nonce + 9))
        stage.partitions[1].slowness = 0.04
        first = await stage.client.post(receive(stage, max_wait_ms=0))
        await wait_all_tasks_blocked()
        second = await stage.client.post(receive(stage, max_wait_ms=0, messages_max=10))
        outcomes = [await stage.client.outcome() for _ in range(2)]
        assert [correlation for correlation, _ in outcomes] == [first, second]
        nonces = [answer.partitions[0].nonce for _, answer in outcomes if isinstance(answer, wire.Received)]
        assert nonces == [1, 2]


async def test_what_is_there_is_received_at_once(autojump_clock: MockClock) -> None:
    async with staged(2) as stage:
        stage.partitions[1].give(delivery(0x1234, 10, 509, data=b"batches", attempt=2, alone_waits=True))
        nothing, [error, *delivered] = await received(stage)
        assert nothing == wire.ReceivedPartition(None, 0, (), False, False, b"")
        assert error is None
        assert delivered == [0x1234, (wire.DeliveryRun(10, 509, 2),), False, True, b"batches", ()]
        assert trio.current_time() < 1


@pytest.mark.parametrize("partitions", [1, 2])
async def test_whether_the_member_tells_what_it_begins_reaches_the_partition(
    partitions: int, autojump_clock: MockClock
) -> None:
    async with staged(partitions) as stage:
        for tells in (True, False):
            stage.partitions[0].give(delivery(7, 0, 4))
            await received(stage, tells_begun=tells, max_wait_ms=0)
        assert [each.tells_begun for each in stage.partitions[0].takes()] == [True, False]


async def test_partitions_that_cannot_be_found_together_are_looked_for_by_the_next_receive(
    autojump_clock: MockClock,
) -> None:
    """Each says why there is nothing; those that are known already give what they have."""
    async with staged(3) as stage:
        await received(stage, partitions=stage.where[1:2], max_wait_ms=0)
        stage.topics.nothing_found = Unavailable("the topics are being opened")
        stage.partitions[1].give(delivery(7, 0, 4))
        first, [error, *_], last = await received(stage)
        assert [each.error and each.error.code for each in (first, last)] == ["unavailable"] * 2
        assert error is None
        stage.topics.nothing_found = None
        stage.partitions[2].give(delivery(8, 0, 4))
        assert [each.error for each in await received(stage)] == [None] * 3


async def test_a_receive_waits_for_the_first_message_and_takes_nothing_before(
    autojump_clock: MockClock,
) -> None:
    async with staged(2) as stage:
        await stage.client.post(receive(stage))
        await wait_all_tasks_blocked()
        assert [len(row.takes()) for row in stage.partitions] == [0, 0]
        stage.partitions[1].give(delivery(1, 10, 19))
        _, answer = await stage.client.outcome()
        assert isinstance(answer, wire.Received)
        assert [each.runs for each in answer.partitions] == [(), (wire.DeliveryRun(10, 19, 1),)]
        waits = [each for each in stage.partitions[0].asked if isinstance(each, AwaitDeliverable)]
        assert [(each.group, each.member, round(each.deadline)) for each in waits] == [("g", "m", 30)]


async def test_a_receive_for_which_nothing_comes_ends_in_time_with_nothing(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        begin = trio.current_time()
        assert await received(stage, max_wait_ms=5_000) == (wire.ReceivedPartition(None, 0, (), False, False, b""),)
        assert trio.current_time() - begin == pytest.approx(5)


async def test_a_receive_from_nowhere_is_answered_at_once(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        assert await received(stage, partitions=()) == ()
        assert trio.current_time() < 1


async def test_an_error_is_that_of_its_partition(autojump_clock: MockClock) -> None:
    """G10: who lost one partition goes on with the others."""
    async with staged() as stage:
        stage.partitions[0].give(StaleGeneration("not yours any more"))
        elsewhere = wire.ReceivePartition(TOPIC, 9)
        stale, unknown = await received(stage, partitions=(*stage.where, elsewhere))
        assert stale.error is not None
        assert unknown.error is not None
        assert (stale.error.code, unknown.error.code) == ("stale_generation", "unknown_partition")


async def test_a_receive_is_asked_for_no_more_than_is_allowed_and_no_less_than_one(
    autojump_clock: MockClock,
) -> None:
    async with staged() as stage:
        for _ in range(2):
            stage.partitions[0].give(delivery(1, 0, 0))
        await received(stage, messages_max=2**32 - 1, bytes_max=2**32 - 1)
        await received(stage, messages_max=0, bytes_max=0)
        most, least = stage.partitions[0].takes()
        assert (most.messages_max, most.bytes_max) == (MESSAGES_MAX, 1024 * 1024)
        assert (least.messages_max, least.bytes_max) == (1, 1)


async def test_the_partition_behind_the_one_that_gave_last_is_asked_first(autojump_clock: MockClock) -> None:
    """Else one that always has something starves the others."""
    async with staged(3) as stage:
        await stage.client.ask(bodies.join("g", "m", "c", ("orders",), {}))
        for row, begin in zip(stage.partitions, (0, 100, 200), strict=True):
            for number in range(3):
                row.give(delivery(begin + number, begin + number, begin + number))
        order = []
        for _ in range(6):
            runs = [run for each in await received(stage, messages_max=1) for run in each.runs]
            order += [run.first for run in runs]
        assert order == [0, 100, 200, 1, 101, 201]


async def test_who_waited_is_given_the_first_without_waiting_for_the_last(autojump_clock: MockClock) -> None:
    """Of a thousand partitions: it is told that there may be more, and is given more at a time from then on."""
    async with staged(5) as stage:
        await stage.client.ask(bodies.join("g", "m", "c", ("orders",), {}))
        for row in stage.partitions:
            row.slowness = 0.4 * FIRST_SECONDS_MAX
            for number in range(2):
                row.give(delivery(number, number, number))
        assert [len(each.runs) for each in await received(stage)] == [1, 1, 1, 0, 0]
        assert [len(each.runs) for each in await received(stage)] == [1, 1, 1, 1, 1]


async def test_a_member_that_must_settle_first_is_told_at_once(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        stage.partitions[0].give(Taken(0, (), b"", is_alone=False, alone_waits=True))
        [answer] = await received(stage, is_busy=True)
        assert answer.alone_waits
        assert trio.current_time() < 1
        assert stage.partitions[0].takes()[0].is_busy


async def test_a_partition_that_promises_and_never_has_anything_is_not_asked_without_end(
    autojump_clock: MockClock,
) -> None:
    """Others may be faster each time; that is no reason to keep the broker busy."""
    async with staged() as stage:
        stage.partitions[0].is_eager = True
        await received(stage, max_wait_ms=1_000)
        assert 10 < len(stage.partitions[0].takes()) < 110


async def test_who_asks_ahead_waits_until_something_is_there_and_is_not_kept_when_it_may_not_have_it(
    autojump_clock: MockClock,
) -> None:
    async with staged() as stage:
        await stage.client.post(receive(stage, at_once=0))
        await wait_all_tasks_blocked()
        assert [each.lasts_max for each in stage.partitions[0].takes()] == [0]
        stage.partitions[0].give(Taken(0, (), b"", is_alone=False, alone_waits=False))
        _, answer = await stage.client.outcome()
        assert isinstance(answer, wire.Received)
        assert answer.partitions[0].runs == ()
        assert trio.current_time() < 1


async def test_who_is_given_a_message_alone_is_given_nothing_else_until_it_says_that_it_holds_nothing(
    autojump_clock: MockClock,
) -> None:
    """Whatever it had asked for before it knew: receives may be under way when that answer comes."""
    async with staged() as stage:
        await stage.client.ask(bodies.join("g", "m", "c", ("orders",), {}))
        row = stage.partitions[0]
        for taken in (delivery(1, 0, 0, is_alone=True), delivery(2, 1, 9)):
            row.give(taken)
        [alone] = await received(stage)
        [nothing] = await received(stage, is_busy=True)
        assert (alone.is_alone, nothing.runs, len(row.takes())) == (True, (), 1)
        [more] = await received(stage)
        assert more.nonce == 2


async def test_receives_of_one_member_take_and_answer_one_after_the_other(autojump_clock: MockClock) -> None:
    """G4: else the later messages may be sent before the earlier ones."""
    async with staged() as stage:
        await stage.client.ask(bodies.join("g", "m", "c", ("orders",), {}))
        row = stage.partitions[0]
        for number in range(10):
            row.give(delivery(number, number, number))
        for _ in range(10):
            await stage.client.post(receive(stage, is_busy=True))
        answers = [await stage.client.outcome() for _ in range(10)]
        nonces = [answer.partitions[0].nonce for _, answer in answers if isinstance(answer, wire.Received)]
        assert nonces == list(range(10))


async def test_what_is_seen_at_once_is_shared_by_all_that_are_asked() -> None:
    async with two_partitions() as (rows, refs):
        rows[0].give(delivery(1, 0, 29))
        await take(refs, replace(LIMITS, lasts_max=40))
        assert [row.takes()[0].lasts_max for row in rows] == [40, 10]


@pytest.mark.parametrize("visibility_ms", [0, 43_200_001])
async def test_a_lease_of_no_length_or_without_end_is_refused(
    visibility_ms: int, autojump_clock: MockClock
) -> None:
    """G14"""
    async with staged() as stage:
        with pytest.raises(GoQueueError) as error:
            await received(stage, visibility_ms=visibility_ms)
        assert error.value.code == "protocol_error"
        assert "43200000" in error.value.message


async def test_who_waits_when_the_broker_goes_is_sent_away_and_has_taken_nothing(autojump_clock: MockClock) -> None:
    """G15"""
    async with staged() as stage:
        await stage.client.post(receive(stage))
        await wait_all_tasks_blocked()
        stage.nursery.start_soon(stage.client.connection.go_away, "the end")
        await stage.client.next_event()
        _, error = await stage.client.outcome()
        assert isinstance(error, GoQueueError)
        assert error.code == "going_away"
        stage.partitions[0].give(delivery(1, 0, 9))
        await wait_all_tasks_blocked()
        assert len(stage.partitions[0].takes()) == 1


async def test_what_is_being_taken_when_the_broker_goes_is_answered(autojump_clock: MockClock) -> None:
    """Else it would be under a lease, and nobody would have it."""
    async with staged() as stage:
        row = stage.partitions[0]
        row.gate = trio.Event()
        row.give(delivery(1, 0, 9))
        await stage.client.post(receive(stage))
        await wait_all_tasks_blocked()
        stage.nursery.start_soon(stage.client.connection.go_away, "the end")
        await stage.client.next_event()
        await wait_all_tasks_blocked()
        row.gate.set()
        _, answer = await stage.client.outcome()
        assert isinstance(answer, wire.Received)
        assert answer.partitions[0].nonce == 1


async def test_who_finds_nothing_while_the_broker_goes_is_sent_away_too(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        row = stage.partitions[0]
        row.gate = trio.Event()
        await stage.client.post(receive(stage))
        await wait_all_tasks_blocked()
        stage.nursery.start_soon(stage.client.connection.go_away, "the end")
        await stage.client.next_event()
        row.gate.set()
        _, error = await stage.client.outcome()
        assert isinstance(error, GoQueueError)
        assert error.code == "going_away"
        assert trio.current_time() < 1


async def test_a_connection_that_is_cut_while_it_waits_takes_nothing(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.client.post(receive(stage))
        await wait_all_tasks_blocked()
        stage.client.transport.cut()
        await wait_all_tasks_blocked()
        stage.partitions[0].give(delivery(1, 0, 9))
        await wait_all_tasks_blocked()
        assert len(stage.partitions[0].takes()) == 1
        assert len(stage.partitions[0].stock) == 1


# Without a task


async def known(stage: Stage) -> None:
    """The connection has found its partitions."""
    await received(stage, max_wait_ms=0)


async def under_way(stage: Stage, **changes: object) -> int:
    """A receive whose first partition has not answered yet. Returns how many tasks it has."""
    await known(stage)
    stage.partitions[0].gate = trio.Event()
    before = trio.lowlevel.current_statistics().tasks_living
    await stage.client.post(receive(stage, **changes))
    await wait_all_tasks_blocked()
    return trio.lowlevel.current_statistics().tasks_living - before


async def go_on(stage: Stage) -> None:
    gate = stage.partitions[0].gate
    assert gate is not None
    gate.set()
    await wait_all_tasks_blocked()


async def test_what_one_partition_has_is_received_without_a_task(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        assert await under_way(stage) == 0
        stage.partitions[0].give(delivery(1, 0, 9))
        await go_on(stage)
        _, answer = await stage.client.outcome()
        assert isinstance(answer, wire.Received)
        assert answer.partitions[0].nonce == 1


async def test_who_found_nothing_without_a_task_waits_in_one(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        assert await under_way(stage) == 0
        await go_on(stage)
        stage.partitions[0].give(delivery(1, 0, 9))
        _, answer = await stage.client.outcome()
        assert isinstance(answer, wire.Received)
        assert answer.partitions[0].nonce == 1


async def test_further_partitions_are_asked_in_a_task_for_the_rest(autojump_clock: MockClock) -> None:
    async with staged(partitions=2) as stage:
        assert await under_way(stage, max_wait_ms=0, messages_max=100) == 0
        stage.partitions[0].give(delivery(1, 0, 9))
        stage.partitions[1].give(delivery(2, 0, 4))
        await go_on(stage)
        _, answer = await stage.client.outcome()
        assert isinstance(answer, wire.Received)
        assert [each.nonce for each in answer.partitions] == [1, 2]
        assert stage.partitions[1].takes()[-1].messages_max == 90
        assert len(stage.partitions[0].takes()) == 2, "each receive asks it once"


async def test_a_refusal_without_a_task_is_that_of_its_partition(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        assert await under_way(stage) == 0
        stage.partitions[0].give(StaleGeneration("someone else has it"))
        await go_on(stage)
        _, answer = await stage.client.outcome()
        assert isinstance(answer, wire.Received)
        [partition] = answer.partitions
        assert partition.error is not None
        assert partition.error.code == "stale_generation"


async def test_of_two_receives_the_second_waits_for_its_turn(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.client.ask(bodies.join("g", "m", "test", ("orders",), {}))
        assert await under_way(stage) == 0
        await stage.client.post(receive(stage))
        await wait_all_tasks_blocked()
        assert len(stage.partitions[0].takes()) == 2
        stage.partitions[0].give(delivery(1, 0, 9))
        stage.partitions[0].give(delivery(2, 10, 19))
        await go_on(stage)
        answers = [(await stage.client.outcome())[1] for _ in range(2)]
        assert [each.partitions[0].nonce for each in answers if isinstance(each, wire.Received)] == [1, 2]


@pytest.mark.parametrize("partitions", [1, 2])
async def test_nobody_wants_what_a_lost_client_has_asked_for_without_a_task(
    partitions: int, autojump_clock: MockClock
) -> None:
    """Its messages would be under a lease, and nobody would have them."""
    async with staged(partitions=partitions) as stage:
        assert await under_way(stage, max_wait_ms=0) == 0
        stage.client.transport.cut()
        await wait_all_tasks_blocked()
        await go_on(stage)
        assert stage.partitions[0].unwanted == 1
