"""What consumers settle: to its partition, in order, as it was said; and the answer says what was stale."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delivery.requests import SettleRuns
from goqueue.actors.front.answers import LATER_ANSWERS_MAX, LATER_SECONDS_MAX
from goqueue.actors.front.bounds import Bounds
from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.settlements import Action
from goqueue.errors import GoQueueError, PartitionUnavailable
from goqueue.net.wire import groups as wire
from goqueue.net.wire.groups import DeliveryRun, DeliverySet, OffsetChunk, SettledDelivery, SettleDelivery
from tests.actors.front.connectionstage import TOPIC, Stage, delivery, staged
from tests.net import bodies

ACK = bodies.settle(TOPIC, 0, 77, int(Action.ACK), (DeliveryRun(10, 509, 1),))


async def settled(stage: Stage, *deliveries: SettleDelivery) -> tuple[SettledDelivery, ...]:
    answer = await stage.client.ask(wire.Settle("g", deliveries))
    assert isinstance(answer, wire.Settled)
    return answer.deliveries


def codes(outcomes: tuple[SettledDelivery, ...]) -> list[str | None]:
    return [each.error.code if each.error else None for each in outcomes]


async def test_a_run_of_many_messages_is_one_word_to_their_partition(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        assert await settled(stage, ACK) == (SettledDelivery(None),)
        assert stage.partitions[0].asked == [SettleRuns("g", 77, Action.ACK, (AttemptRun(10, 509, 1),))]


async def test_a_whole_delivery_is_acked_by_its_size(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        assert await settled(stage, ACK._replace(runs=(), whole=500)) == (SettledDelivery(None),)
        assert stage.partitions[0].asked == [SettleRuns("g", 77, Action.ACK, (), whole=500)]


async def test_each_action_takes_what_it_needs_along(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        nack = ACK._replace(action=1, delay_ms=1_500, reason="x" * 3_000)
        backed_off = ACK._replace(action=1)
        reject = ACK._replace(action=2, reason="bad")
        release = ACK._replace(action=3)
        extend, extend_all = ACK._replace(action=4, delay_ms=30_000), ACK._replace(action=4, delay_ms=1, runs=())
        words = (nack, backed_off, reject, release, extend, extend_all, ACK._replace(action=5))
        assert codes(await settled(stage, *words)) == [None] * 7
        heard = [(each.action, each.delay, each.reason) for each in stage.partitions[0].settles()]
        assert heard == [
            (Action.NACK, 1.5, "x" * 1_000),
            (Action.NACK, None, ""),
            (Action.REJECT, None, "bad"),
            (Action.RELEASE, None, ""),
            (Action.EXTEND, 30.0, ""),
            (Action.EXTEND, 0.001, ""),
            (Action.BEGIN, None, ""),
        ]


async def test_what_is_stale_is_named_and_the_rest_is_settled(autojump_clock: MockClock) -> None:
    """G6"""
    async with staged() as stage:
        stage.partitions[0].outcomes = [(AttemptRun(20, 29, 1),), ()]
        first, second = await settled(stage, ACK, ACK._replace(nonce=78))
        assert first == SettledDelivery(None, (DeliveryRun(20, 29, 1),))
        assert second == SettledDelivery(None)


async def test_one_delivery_that_fails_does_not_keep_the_others(autojump_clock: MockClock) -> None:
    async with staged(2) as stage:
        stage.partitions[0].outcomes = [PartitionUnavailable("mend it")]
        outcomes = await settled(
            stage, ACK, ACK._replace(partition=9), ACK._replace(topic=bytes(16)), ACK._replace(partition=1)
        )
        assert codes(outcomes) == ["partition_unavailable", "unknown_partition", "unknown_partition", None]
        assert len(stage.partitions[1].settles()) == 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"runs": (DeliveryRun(9, 8, 1),)}, id="a run that ends before it begins"),
        pytest.param({"whole": 500}, id="a whole delivery that is named too"),
        pytest.param({"whole": 500, "runs": (), "action": 3}, id="a whole delivery given back"),
        pytest.param({"runs": (DeliveryRun(1, 5, 1), DeliveryRun(5, 6, 1))}, id="runs that overlap"),
        pytest.param({"runs": (DeliveryRun(5, 6, 1), DeliveryRun(1, 5, 2))}, id="runs that overlap, turned round"),
        pytest.param({"action": 4}, id="an extension without a length"),
        pytest.param({"action": 4, "delay_ms": 0}, id="an extension of nothing"),
        pytest.param({"action": 4, "delay_ms": 43_200_001}, id="a lease without end"),
        pytest.param({"action": 1, "delay_ms": 2**63 - 1}, id="a retry that never comes"),
    ],
)
async def test_a_word_that_makes_no_sense_is_refused_and_the_others_are_heard(
    changes: dict[str, Any], autojump_clock: MockClock
) -> None:
    """G14: what a ledger would stumble over does not reach it."""
    async with staged() as stage:
        assert codes(await settled(stage, ACK._replace(**changes), ACK)) == ["protocol_error", None]
        assert [each.action for each in stage.partitions[0].settles()] == [Action.ACK]


async def test_runs_may_come_in_any_order(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        runs = (DeliveryRun(30, 39, 2), DeliveryRun(10, 19, 1))
        assert codes(await settled(stage, ACK._replace(runs=runs))) == [None]
        [heard] = stage.partitions[0].settles()
        assert heard.runs == (AttemptRun(10, 19, 1), AttemptRun(30, 39, 2))


async def test_nothing_to_settle_is_done(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        assert await settled(stage) == ()
        assert await settled(stage, ACK._replace(runs=())) == (SettledDelivery(None),)
        assert stage.partitions[0].asked == []


async def test_what_is_settled_reaches_its_partition_in_the_order_of_the_frames(autojump_clock: MockClock) -> None:
    async with staged(2) as stage:
        async with trio.open_nursery() as nursery:
            for nonce in range(50):
                words = ACK._replace(nonce=2 * nonce), ACK._replace(nonce=2 * nonce + 1, partition=nonce % 2)
                stage.client.session.request(wire.Settle("g", words))
            nursery.start_soon(stage.client.flush)
            answers = [await stage.client.outcome() for _ in range(50)]
        assert all(isinstance(answer, wire.Settled) for _, answer in answers)
        for row in stage.partitions:
            heard = [each.nonce for each in row.settles()]
            assert heard == sorted(heard)
        assert sum(len(row.settles()) for row in stage.partitions) == 100


async def test_runs_that_are_not_answered_are_bounded(autojump_clock: MockClock) -> None:
    """G14: a client that settles faster than its partition can waits, and so do its frames."""
    async with staged(bounds=Bounds(settling_runs_max=10)) as stage:
        gate = stage.partitions[0].gate = trio.Event()
        for _ in range(8):
            stage.client.session.request(wire.Settle("g", (ACK,)))
        stage.nursery.start_soon(stage.client.flush)
        await wait_all_tasks_blocked()
        assert stage.client.connection._broker_session.settles.amount == 10
        gate.set()
        for _ in range(8):
            assert isinstance((await stage.client.outcome())[1], wire.Settled)
        assert stage.client.connection._broker_session.settles.amount == 0


async def test_one_settle_that_is_larger_than_the_bound_goes_alone(autojump_clock: MockClock) -> None:
    async with staged(bounds=Bounds(settling_runs_max=1)) as stage:
        assert codes(await settled(stage, ACK, ACK)) == [None, None]


async def test_what_is_delivered_and_settled_is_counted_in_messages(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        row, counts = stage.partitions[0], stage.broker.statistics.groups
        row.give(delivery(1, 0, 99, data=bytes(50)))
        row.give(delivery(2, 0, 9, data=bytes(5), attempt=2))
        for _ in range(2):
            await stage.client.ask(bodies.receive("g", "m", 3, 0, 500, 1_000, 1_000, False, stage.where))
        row.outcomes = [(AttemptRun(10, 19, 1),)]
        words = [ACK, *(ACK._replace(action=action, runs=(DeliveryRun(0, action, 1),)) for action in (1, 2, 3))]
        extend = ACK._replace(action=4, delay_ms=1_000)
        await settled(stage, *words, extend)
        report = counts.report(1, counts.of["g"])
        assert {name: value for name, value in report.items() if value} == {
            "groups": 1,
            "delivered.messages": 110,
            "delivered.again": 10,
            "delivered.bytes": 55,
            "settled.acked": 490,
            "settled.stale": 10,
            "settled.nacked": 2,
            "settled.rejected": 3,
            "settled.released": 4,
        }


async def test_a_delivery_that_fails_is_not_counted(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        stage.partitions[0].outcomes = [PartitionUnavailable("mend it")]
        await settled(stage, ACK)
        assert stage.broker.statistics.groups.of["g"].settled[Action.ACK] == 0


async def test_who_settles_and_goes_has_settled(autojump_clock: MockClock) -> None:
    """G15: an answer that nobody hears harms nobody."""
    async with staged() as stage:
        gate = stage.partitions[0].gate = trio.Event()
        await stage.client.post(wire.Settle("g", (ACK,)))
        await wait_all_tasks_blocked()
        stage.client.transport.cut()
        await wait_all_tasks_blocked()
        gate.set()
        await wait_all_tasks_blocked()
        assert len(stage.partitions[0].settles()) == 1


SOME = DeliverySet(1, (OffsetChunk(0, b"\x0a"), OffsetChunk(1, b"\x01")))


async def test_messages_that_came_by_sets_are_settled_by_sets(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        by_sets = ACK._replace(runs=(), sets=(SOME, DeliverySet(2, (OffsetChunk(0, b"\x04"),))))
        assert await settled(stage, by_sets) == (SettledDelivery(None),)
        [asked] = stage.partitions[0].settles()
        assert asked.runs == ((1, 1, 1), (2, 2, 2), (3, 3, 1), (4_096, 4_096, 1))


@pytest.mark.parametrize(
    "sets",
    [
        (DeliverySet(1, tuple(OffsetChunk(number, b"") for number in range(3))),),
        (DeliverySet(1, (OffsetChunk(0, bytes(513)),)),),
        (DeliverySet(1, (OffsetChunk(2**63 - 1, b"\x01"),)),),
        (SOME, SOME._replace(attempt=2)),
    ],
    ids=["more than a delivery has", "more than a chunk has", "beyond all offsets", "the same twice"],
)
async def test_sets_that_cannot_be_are_refused(sets: tuple[DeliverySet, ...], autojump_clock: MockClock) -> None:
    """G14"""
    async with staged() as stage:
        [refused] = await settled(stage, ACK._replace(runs=(), sets=sets))
        assert refused.error is not None
        assert stage.partitions[0].settles() == []


async def test_answers_that_nobody_waits_for_are_sent_together(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        begun = trio.current_time()
        for _ in range(LATER_ANSWERS_MAX - 1):
            await stage.client.post(wire.Settle("g", (ACK,), is_unhurried=True))
            await wait_all_tasks_blocked()
        assert len(stage.partitions[0].settles()) == LATER_ANSWERS_MAX - 1, "they are settled at once"
        assert stage.client.connection.bytes_waiting, "and their answers wait"
        await stage.client.outcome()
        assert trio.current_time() - begun == pytest.approx(LATER_SECONDS_MAX)
        assert not stage.client.connection.bytes_waiting


async def test_many_of_them_do_not_wait_for_time_to_pass(autojump_clock: MockClock) -> None:
    """A client has a limit of settlements under way, and would wait for them."""
    async with staged() as stage:
        begun = trio.current_time()
        for _ in range(LATER_ANSWERS_MAX):
            await stage.client.post(wire.Settle("g", (ACK,), is_unhurried=True))
        for _ in range(LATER_ANSWERS_MAX):
            await stage.client.outcome()
        assert trio.current_time() == begun


async def test_an_answer_that_is_waited_for_takes_them_along(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        begun = trio.current_time()
        first = await stage.client.post(wire.Settle("g", (ACK,), is_unhurried=True))
        second = await stage.client.post(wire.Settle("g", (ACK,)))
        assert [(await stage.client.outcome())[0] for _ in range(2)] == [first, second]
        assert trio.current_time() == begun


async def test_a_refusal_is_not_kept_waiting(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        begun = trio.current_time()
        await stage.client.post(wire.Settle("no/group", (ACK,), is_unhurried=True))
        assert isinstance((await stage.client.outcome())[1], GoQueueError)
        assert trio.current_time() == begun
