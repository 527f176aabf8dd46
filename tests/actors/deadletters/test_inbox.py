"""Dead letters as an inbox: each waits, was redriven or was dismissed, and no crash makes that a lie (G5)."""

from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.deadletters.requests import (
    CountDeadLetters,
    DismissDeadLetters,
    FindLetterDecisions,
    LettersDecided,
    RedriveDeadLetters,
)
from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.board import board_of
from goqueue.actors.partition.requests import DeleteBefore, Maintain, Produce
from goqueue.actors.topics.requests import AlterTopic, DeleteTopic
from goqueue.core.groups.redrive import LetterCounts
from goqueue.core.ledger.deadletters import Decision, Destination, LetterVerdict
from goqueue.core.records.record import encode_record
from goqueue.net.wire.letters import Dismiss, Redrive
from goqueue.testing.disk import SimulatedDisk
from tests.actors.deadletters.test_redrive import give_up, received, reject, values
from tests.actors.delivery.gatherers import WatchedDisk, broker
from tests.actors.groups.groupworld import consumer, create, partition_of, patience
from tests.actors.partition.test_partition import publish
from tests.actors.runtime.troupe import start_call

REDRIVEN, DISMISSED, RETURNED = LetterVerdict
LEDGERS = "/data/logs/orders.dlq/0/groups"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def redrive(running: Broker, topic: str = "orders", **wanted: Any) -> LettersDecided:
    return await running.dead_letters.call(RedriveDeadLetters(*Redrive(topic, **wanted)))


async def dismiss(running: Broker, topic: str = "orders", **wanted: Any) -> LettersDecided:
    return await running.dead_letters.call(DismissDeadLetters(*Dismiss(topic, **wanted)))


async def test_a_topic_without_dead_letters_says_so(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        for decide in (redrive, dismiss):
            assert await decide(running) == LettersDecided(0, 0, 0, 0, "there are no dead letters")


async def counts(running: Broker, topic: str = "orders") -> tuple[int, int, int]:
    found = sum(await running.dead_letters.call(CountDeadLetters(topic)), LetterCounts())
    return found.waiting, found.redriven, found.dismissed


async def decisions(running: Broker, partition: int = 0) -> dict[int, Decision]:
    found = await running.dead_letters.call(FindLetterDecisions("orders", partition, 0, 1_000))
    return {offset: each for each, runs in found for run in runs for offset in range(run.first, run.last + 1)}


async def test_letters_wait_until_they_are_redriven_or_dismissed(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        await create(running, "hospital")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b", b"c", b"d")
        assert await counts(running) == (4, 0, 0)
        assert await redrive(running, offsets=(0,)) == (1, 3, 1, 0, "")
        assert await redrive(running, offsets=(1,), to="hospital") == (1, 2, 2, 0, "")
        assert await dismiss(running, offsets=(2,), note="known") == (1, 1, 2, 1, "")
        assert await counts(running) == (1, 2, 1)
        found = await decisions(running)
        assert {offset: (each.verdict, each.to, each.note) for offset, each in found.items()} == {
            0: (REDRIVEN, Destination(), ""),
            1: (REDRIVEN, Destination("hospital", True), ""),
            2: (DISMISSED, None, "known"),
        }
        assert all(each.at for each in found.values())
    async with broker(disk) as after:
        assert await decisions(after) == found
        assert await counts(after) == (1, 2, 1)
        assert await redrive(after) == (1, 0, 3, 1, ""), "a dismissed one does not go back"
        assert await values(after, "orders") == [b"a", b"b", b"c", b"d", b"a", b"d"]


async def test_a_dry_dismissal_changes_nothing(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b", b"c")
        assert await dismiss(running, dry_run=True, messages_max=2) == (2, 1, 0, 0, "")
        assert await counts(running) == (3, 0, 0)
        assert await dismiss(running, messages_max=2) == (2, 1, 0, 2, "")


async def test_what_a_program_published_counts_and_can_be_dismissed(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a")
        await (await partition_of(running, "orders.dlq")).call(publish(b"by hand"))
        assert await counts(running) == (2, 0, 0)
        assert await dismiss(running) == (2, 0, 0, 2, "")


async def test_zero_says_why(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders", 2)
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b")
        assert (await redrive(running, group="audit")).why == (
            "2 dead letters were looked at: 2 belong to another group (billing)"
        )
        assert (await dismiss(running, reason="bank")).why == (
            "2 dead letters were looked at: 2 do not match what was chosen"
        )
        assert (await redrive(running, partition=1)).why == "there are no dead letters"
        assert (await redrive(running, messages_max=0)).why == "none was asked for"
        await redrive(running, offsets=(0,))
        await dismiss(running)
        why = (await redrive(running)).why
        assert why.startswith("no dead letter waits: 1 was sent back, last ")
        assert " ago and 1 was dismissed, last " in why


async def test_decided_letters_go_back_once_more_only_when_that_is_asked_for(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b", b"c", b"d")
        await redrive(running, offsets=(0,))
        await dismiss(running, offsets=(1, 2))
        assert await redrive(running, offsets=(1,)) == (0, 1, 1, 2, (await redrive(running, offsets=(1,))).why)
        assert await redrive(running, offsets=(1,), again=True, dry_run=True) == (1, 1, 1, 2, "")
        assert await redrive(running, again=True, messages_max=3, dry_run=True) == (3, 0, 1, 2, "")
        assert await redrive(running, offsets=(1,), again=True) == (1, 1, 2, 1, "")
        assert (await decisions(running))[1].verdict is REDRIVEN
        assert await redrive(running, again=True) == (4, 0, 4, 0, "")
        assert await values(running, "orders") == [*b"a b c d a b d a b c".split()]
        assert await received(who) == 6


@pytest.mark.parametrize("end", [SimulatedDisk.kill, SimulatedDisk.crash])
async def test_whatever_step_a_crash_cuts_short_no_state_is_a_lie(
    disk: SimulatedDisk, autojump_clock: MockClock, end: Any
) -> None:
    """A letter that waits was not sent; a redriven one is there once more, exactly; a dismissed one never."""
    watched = WatchedDisk(disk, end)
    async with broker(watched) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b", b"c")
        watched.images = []
        await dismiss(running, offsets=(1,))
        await redrive(running)
        await redrive(running, offsets=(1,), again=True)
        images, watched.images = watched.images, None
    seen = set()
    for image in images:
        async with broker(image) as after:
            await patience()
            sent = (await values(after, "orders"))[3:]
            found = await decisions(after)
            redriven = sorted(b"abc"[at : at + 1] for at, each in found.items() if each.verdict is REDRIVEN)
            assert sorted(sent) == redriven
            assert await counts(after) == (3 - len(found), len(redriven), len(found) - len(redriven))
            seen.add(await counts(after))
    assert seen >= {(3, 0, 0), (2, 0, 1), (0, 2, 1), (0, 3, 0)}


async def test_a_letter_that_is_sent_again_arrives_once_whatever_step_a_crash_cuts_short(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    watched = WatchedDisk(disk, SimulatedDisk.kill)
    async with broker(watched) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a")
        await redrive(running)
        watched.images = []
        await redrive(running, again=True)
        images, watched.images = watched.images, None
    numbers = set()
    for image in images:
        async with broker(image) as after:
            await patience()
            assert await counts(after) == (0, 1, 0)
            numbers.add(len(await values(after, "orders")))
    assert numbers == {2, 3}


async def test_what_was_deleted_counts_no_more(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b", b"c")
        await dismiss(running, offsets=(0, 1))
        await (await partition_of(running, "orders.dlq")).call(DeleteBefore(1))
        assert await counts(running) == (1, 0, 1)


async def test_what_compaction_has_removed_counts_no_more(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Of each key the last letter stays; the counts were right for all of them before."""
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        body = b"".join(encode_record(number, 1, b"%d" % number, key=b"%d" % (number % 2)) for number in range(6))
        await (await partition_of(running, "orders")).call(Produce(body, 6))
        await reject(who)
        await dismiss(running, offsets=(0, 4))
        await redrive(running, offsets=(1,))
        assert await counts(running) == (3, 1, 2)
        await running.topics.call(AlterTopic("orders.dlq", {"cleanup": "compact"}))
        ref = await partition_of(running, "orders.dlq")
        (await board_of(ref)).log.roll()
        await ref.call(Maintain(compact=True))
        assert await counts(running) == (1, 0, 1), "offsets 4 and 5 are there"
        assert await redrive(running) == (1, 0, 1, 1, "")


async def test_a_letter_that_cannot_be_read_is_not_counted_until_it_is_repaired(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a")
        await give_up(running, who, b"b")
        path = "/data/logs/orders.dlq/0/00000000000000000000.log"
        disk.flip_bit(path, 200, 1)  # in the batch of offset 0
        assert await redrive(running, dry_run=True) == (1, 0, 0, 0, "")
        assert await counts(running) == (1, 0, 0)
        assert await redrive(running) == (1, 0, 1, 0, "")
        disk.flip_bit(path, 200, 1)


async def test_a_dismissal_that_was_answered_survives_a_power_cut(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b")
        await redrive(running, dry_run=True)
        await dismiss(running, offsets=(1,))
        cut_off = disk.crash()
    async with broker(cut_off) as after:
        await patience()
        assert await counts(after) == (1, 0, 1)


async def test_delayed_messages_of_a_program_are_no_letters(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        await create(running, "orders.dlq")
        body = encode_record(0, 1, b"later", due=2**45 * 10)
        await (await partition_of(running, "orders.dlq")).call(Produce(body, 1))
        assert await counts(running) == (0, 0, 0)


async def test_a_dead_letter_topic_that_was_made_anew_begins_anew(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a")
        await dismiss(running)
        await running.topics.call(DeleteTopic("orders.dlq"))
        assert await running.dead_letters.call(CountDeadLetters("orders")) == ()
        await give_up(running, who, b"b")
        assert await counts(running) == (1, 0, 0)
        assert await decisions(running) == {}


async def test_letters_of_several_groups_are_decided_apart(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        billing, audit = await consumer(running, "orders"), await consumer(running, "orders", group="audit")
        await give_up(running, billing, b"a")
        await reject(audit)
        assert await dismiss(running, group="audit") == (1, 1, 0, 1, "")
        assert await redrive(running) == (1, 0, 1, 1, "")
        assert (await received(billing), await received(audit)) == (1, 0)


async def test_a_letter_whose_topic_goes_meanwhile_waits_on_as_a_copy(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running, trio.open_nursery() as nursery:
        await create(running, "orders")
        await create(running, "hospital")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b", b"c")
        wanted = RedriveDeadLetters(*Redrive("orders", to="hospital", per_second=1))
        asked = start_call(nursery, running.dead_letters, wanted)
        await trio.sleep(0.5)
        await running.topics.call(DeleteTopic("hospital"))
        await trio.sleep(10)
        assert asked.answer == (3, 2, 3, 0, "")
        assert [each.verdict for each in (await decisions(running)).values()] == [1, 3, 3]
        assert await values(running, "orders.dlq") == [*b"a b c b c".split()]
        assert (await redrive(running, again=True)).decided == 3, "what was put back goes as its copy, once"
        assert sorted((await values(running, "orders"))[3:]) == [b"a", b"b", b"c"]


async def test_lost_ledgers_make_the_counts_doubtful(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        who = await consumer(running, "orders")
        await give_up(running, who, b"a", b"b")
        await redrive(running)
        [found] = await running.dead_letters.call(CountDeadLetters("orders"))
        assert not found.is_doubtful
        await patience()
    for name in disk.list(LEDGERS):
        disk.remove(f"{LEDGERS}/{name}")
    async with broker(disk) as after:
        [found] = await after.dead_letters.call(CountDeadLetters("orders"))
        assert (found.waiting, found.is_doubtful) == (2, True)
        await patience()
        await redrive(after, dry_run=True)
        [found] = await after.dead_letters.call(CountDeadLetters("orders"))
        assert (found.waiting, found.is_doubtful) == (2, True), "also with a new ledger"
