"""Dead letters as they leave a partition: the same under the same sequence until they are confirmed (G5)."""

from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.delivery.requests import ConfirmDeadLetters, DeadLetters, SkipDamaged, TakeDeadLetters
from goqueue.actors.partition.requests import DeleteBefore, Maintain, Produce
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import decode_records, encode_record
from goqueue.storage.log.log import Log
from goqueue.storage.log.views import LogSlice
from goqueue.storage.snapshotlog.snapshotlog import SnapshotLog
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import COMPANION, GROUP, LEDGERS, Desk, desk, offsets, run
from tests.storage.journals.crashes import leave_room
from tests.storage.logs import SMALL, mounted, path_of


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def leaving(there: Desk, messages_max: int = 100, bytes_max: int = 1_000_000) -> DeadLetters | None:
    return await there.ref.call(TakeDeadLetters(GROUP, messages_max, bytes_max))


async def some_leaving(there: Desk, messages_max: int = 100, bytes_max: int = 1_000_000) -> DeadLetters:
    letters = await leaving(there, messages_max, bytes_max)
    assert letters is not None
    return letters


async def confirm(there: Desk, letters: DeadLetters) -> None:
    await there.ref.call(ConfirmDeadLetters(GROUP, letters.producer.base_sequence))


async def publish_and_reject(there: Desk, count: int, *rejected: int, size: int = 1) -> None:
    await there.publish(*[b"%d" % (number % 10) * size for number in range(count)])
    taken = await there.take()
    await there.settle(taken, Action.REJECT, runs=[run(offset) for offset in rejected], reason="bad")
    await there.settle(taken, runs=[run(offset) for offset in offsets(taken) if offset not in rejected])


async def test_a_rejected_message_leaves_with_its_story(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    clock = SimulatedClock()
    async with desk(disk, clock=clock) as there:
        await there.publish(b"a", b"poison", b"c")
        first_delivery = clock.now()
        await there.settle(await there.take(), Action.NACK, delay=5.0)
        await trio.sleep(5)
        taken, last_delivery = await there.take(), clock.now()
        await there.settle(taken, Action.REJECT, runs=[run(1, attempt=2)], reason="cannot be read")
        (letter,) = (await some_leaving(there)).messages
        assert (letter.offset, letter.attempts, letter.reason) == (1, 2, "cannot be read")
        assert letter.first_delivery == pytest.approx(first_delivery, abs=50_000)
        assert letter.last_delivery == pytest.approx(last_delivery, abs=50_000)
        (record,) = decode_records(letter.record, 1, 0)
        assert record.value == b"poison"


async def test_progress_waits_until_they_are_confirmed(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G5: a dead letter does not block the prefix for ever, nor does progress pass it before."""
    async with desk(disk) as there:
        await publish_and_reject(there, 4, 1, 2)
        letters = await some_leaving(there)
        assert [letter.offset for letter in letters.messages] == [1, 2]
        assert await there.committed() == 1
        await confirm(there, letters)
        assert await there.committed() == 4
        await confirm(there, letters)
        assert await leaving(there) is None


async def test_what_is_published_and_given_up_while_others_are_looked_up_is_lost_no_more_than_these(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5: what lay behind the end of the log a moment ago is not what has left it."""
    read, reads = Log.read, list[int]()

    async def slowly(self: Log, offset: int, *others: Any) -> LogSlice:
        reads.append(offset)
        if len(reads) == 1:
            await trio.sleep(1)
        return await read(self, offset, *others)

    async with desk(disk) as there:
        await publish_and_reject(there, 1, 0)
        monkeypatch.setattr(Log, "read", slowly)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leaving, there)
            await wait_all_tasks_blocked()
            assert reads == [0]
            monkeypatch.setattr(Log, "read", read)
            await there.publish(b"later")
            await there.ref.call(DeleteBefore(1))
            await there.settle(await there.take(), Action.REJECT, reason="bad")
        letters = await some_leaving(there)
        assert [letter.offset for letter in letters.messages] == [1]
        assert await there.committed() == 1


async def test_the_group_is_told_by_reject_by_the_last_nack_and_by_the_last_expiry(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, attached=False) as there:
        await there.attach(settings=LedgerSettings(max_deliveries=1))
        for action in (Action.REJECT, Action.NACK, None):
            await there.publish(b"a")
            taken = await there.take(visibility=5.0)
            there.heard.clear()
            if action is None:
                await trio.sleep(5)
            else:
                await there.settle(taken, action)
            await wait_all_tasks_blocked()
            assert there.heard == [("orders", 0)]
        letters = await some_leaving(there)
        assert [letter.reason.split(",")[0] for letter in letters.messages] == [
            "rejected",
            "nacked",
            "not settled within 5 s",
        ]


async def test_the_same_messages_come_under_the_same_sequence_until_they_are_confirmed(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await publish_and_reject(there, 6, 0, 2, 4)
        letters = await some_leaving(there, 2)
        assert await some_leaving(there, 100) == letters
        await confirm(there, letters)
        rest = await some_leaving(there)
        assert [letter.offset for letter in rest.messages] == [4]
        assert rest.producer == letters.producer._replace(base_sequence=2)


@pytest.mark.parametrize("loss", ["kill", "crash"])
async def test_a_transfer_survives_whatever_happens_to_the_machine(
    loss: str, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: whoever had them may have appended them, so no other messages ever have their sequence."""
    async with desk(disk) as there:
        await publish_and_reject(there, 6, 1, 3)
        letters = await some_leaving(there)
        for _ in range(20):
            lost = disk.kill() if loss == "kill" else disk.crash()
            async with desk(lost) as after:
                await wait_all_tasks_blocked()
                assert after.heard
                assert await some_leaving(after) == letters
                await confirm(after, letters)
                assert await after.committed() >= 2


async def test_a_confirmed_transfer_is_not_repeated_after_a_kill(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await publish_and_reject(there, 3, 0)
        await confirm(there, await some_leaving(there))
        async with desk(disk.kill()) as after:
            assert await leaving(after) is None
            assert after.heard == []
            assert await after.committed() == 3


async def three_transfers(disk: SimulatedDisk) -> tuple[DeadLetters, int, int]:
    """The first transfer, and where in the log it is said that it ended. The third is under way."""
    async with desk(disk) as there:
        await publish_and_reject(there, 8, 0, 2, 4, 6)
        first = await some_leaving(there, 1)
        begin = disk.size(LEDGERS)
        await confirm(there, first)
        end = disk.size(LEDGERS)
        await confirm(there, await some_leaving(there, 2))
        await some_leaving(there)
    return first, begin, end


@pytest.mark.parametrize("loss", ["kill", "crash"])
async def test_a_transfer_whose_end_was_lost_is_repeated_as_it_was_and_the_next_has_another_producer(
    loss: str, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: the topic knows the first; the numbers behind it were used by the others, which nobody remembers."""
    first, begin, end = await three_transfers(disk)
    disk.flip_bit(LEDGERS, (begin + end) // 2, 0)
    for _ in range(3):  # it is so still after it was found and a snapshot was written
        async with desk(disk) as after:
            assert await some_leaving(after, 1) == first
    async with desk(disk) as after:
        await confirm(after, await some_leaving(after))
        await trio.sleep(2)
    async with desk(disk) as after:
        second = await some_leaving(after, 1)
        assert [letter.offset for letter in second.messages] == [2]
        assert second.producer.id != first.producer.id
        for _ in range(10):
            async with desk(disk.kill() if loss == "kill" else disk.crash()) as again:
                assert await some_leaving(again) == second
                await confirm(again, second)
                third = await some_leaving(again)
                assert third.producer == second.producer._replace(base_sequence=second.producer.base_sequence + 1)


async def test_a_journal_that_could_not_be_replaced_on_a_full_disk_names_the_new_producer_with_its_transfer(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    first, begin, end = await three_transfers(disk)
    disk.flip_bit(LEDGERS, (begin + end) // 2, 0)
    await kept_aside(disk)
    leave_room(disk, 0)
    async with desk(disk, attached=False) as after:
        leave_room(disk, 1_000_000)
        await confirm(after, await some_leaving(after, 1))
        second = await some_leaving(after, 1)
        assert second.producer.id != first.producer.id
        async with desk(disk.kill()) as again:
            assert await some_leaving(again) == second


async def kept_aside(disk: SimulatedDisk) -> None:
    """What a start does before it looks at the entries."""
    async with mounted(disk) as volume:
        log, _ = await SnapshotLog.open(volume, COMPANION, leader_epoch=1)
        log.abandon()


async def test_a_transfer_is_bounded_by_messages_and_bytes_but_one_always_goes(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await publish_and_reject(there, 6, *range(6), size=1_000)
        sizes = []
        for messages_max, bytes_max in ((2, 10_000), (10, 2_500), (10, 1)):
            letters = await some_leaving(there, messages_max, bytes_max)
            sizes.append(len(letters.messages))
            await confirm(there, letters)
        assert sizes == [2, 2, 1]


async def test_what_has_left_the_log_before_it_could_leave_is_passed_over(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await publish_and_reject(there, 6, 1, 4)
        await there.ref.call(DeleteBefore(3))
        assert [letter.offset for letter in (await some_leaving(there)).messages] == [4]


async def test_what_compaction_took_before_it_could_leave_is_passed_over(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, SMALL) as there:
        for _ in range(40):
            await there.ref.call(Produce(encode_record(0, 1, b"v" * 60, key=b"k"), 1))
        taken = await there.take(2)
        await there.settle(taken, Action.REJECT)
        await there.ref.call(Maintain(compact=True))
        assert await leaving(there) is None
        assert await there.committed() == 2


async def test_a_transfer_whose_messages_have_left_the_log_keeps_their_number(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Else the dead-letter topic would not know the repeat."""
    async with desk(disk, SMALL) as there:
        await publish_and_reject(there, 3, 1, 2)
        letters = await some_leaving(there)
        for _ in range(20):
            await there.publish(b"x" * 100)
        await there.ref.call(DeleteBefore(2))
        disk.flip_bit(path_of(0), 150, 3)
        assert await leaving(there) is None
        await there.ref.call(SkipDamaged(GROUP, 2, 2))
        again = await some_leaving(there)
        assert (again.producer, len(again.messages)) == (letters.producer, 2)
        assert all("left the log" in letter.reason for letter in again.messages)
        await confirm(there, again)
        assert await there.committed() == 3
