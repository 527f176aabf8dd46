"""The journal of a partition's ledgers: what is written comes back, and what is lost is noticed."""

from random import Random

import msgpack
import pytest
import trio
from trio.testing import MockClock

from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.handout import LaneScan, Recipient, Scanned
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.offsetset import Run
from goqueue.errors import UnknownFormat
from goqueue.storage.journals.file import NEW
from goqueue.storage.journals.journal import Journal
from goqueue.storage.journals.ledgers import (
    NAME,
    FoundLedgers,
    LedgerJournal,
    WrittenLedger,
    forgotten,
    happened,
    reads_here,
)
from goqueue.storage.log.volume import Volume
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Priority
from tests.storage.logs import mounted

DIRECTORY = "/data/logs/orders/0"
PATH = f"{DIRECTORY}/{NAME}"
WALL = 1_700_000_000_000_000
SETTINGS = LedgerSettings(max_deliveries=5, backoff_first=0.5, backoff_max=8.0)


class Shell:
    """Writes what happens to a ledger, then lets it happen, as a partition does."""

    def __init__(self, journal: LedgerJournal, group: str = "billing", group_id: int = 7) -> None:
        self.journal = journal
        self.written = WrittenLedger(group, group_id, 4711, Ledger(SETTINGS))
        self.now, self.wall, self.nonce = 100.0, WALL, 0

    def attach(self, offset: int = 0) -> None:
        began = self.written.ledger.begin(offset)
        self.journal.append(
            [reads_here(self.written, self.wall, SETTINGS), happened(self.written, self.wall, began, 1)]
        )
        self.written.ledger.apply(began, self.now)
        self.written.number += 2

    def write(self, *entries: Entry | None) -> None:
        there = [entry for entry in entries if entry is not None]
        self.journal.append([happened(self.written, self.wall, entry, n) for n, entry in enumerate(there)])
        for entry in there:
            self.written.ledger.apply(entry, self.now)
            self.written.number += 1

    def deliver(self, count: int, visibility: float = 30.0) -> int:
        first, self.nonce = self.written.ledger.next_fresh, self.nonce + 1
        scan = LaneScan(Priority.NORMAL, first + count, (), [Run(first, first + count - 1)])
        plan = self.written.ledger.plan(self.now, "ann", count, is_busy=False)
        to = Recipient(self.wall, "ann", self.nonce, visibility)
        self.write(*self.written.ledger.hand_out(self.now, to, plan, Scanned([scan])).entries)
        return self.nonce

    def ack(self, nonce: int, first: int, last: int) -> None:
        self.write(self.written.ledger.ack(self.now, nonce, [AttemptRun(first, last, 1)])[0])

    def transfer_next(self, sequence: int) -> None:
        """One more message is given up and leaves."""
        offset, nonce = self.written.ledger.next_fresh, self.deliver(1)
        runs = [AttemptRun(offset, offset, 1)]
        self.write(self.written.ledger.reject(self.now, nonce, runs, "bad")[0])
        self.write(self.written.ledger.begin_transfer(sequence, [Run(offset, offset)]))

    def arrive(self, sequence: int) -> None:
        self.write(self.written.ledger.transferred(sequence))

    def read_on(self, producer_id: int) -> None:
        self.journal.append([reads_here(self.written, self.wall, SETTINGS, producer_id)])
        self.written.take_producer(producer_id)
        self.written.number += 1

    def snapshot(self) -> object:
        return self.written.ledger.snapshot(self.now)


async def open_journal(volume: Volume, now: float = 100.0, wall: int = WALL) -> tuple[LedgerJournal, FoundLedgers]:
    return await LedgerJournal.open(volume, DIRECTORY, now, wall)


async def found_on(disk: SimulatedDisk, now: float = 100.0, wall: int = WALL) -> FoundLedgers:
    async with mounted(disk) as volume:
        return (await open_journal(volume, now, wall))[1]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def test_what_was_written_comes_back(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with mounted(disk) as volume:
        journal, found = await open_journal(volume)
        assert (found.ledgers, found.lost, found.is_doubtful) == ({}, 0, False)
        shell, other = Shell(journal), Shell(journal, "audit", 8)
        shell.attach(3)
        other.attach()
        shell.ack(shell.deliver(4), 3, 5)
        other.deliver(2)
        found = await found_on(disk.kill())
        assert [found.ledgers[name].ledger.snapshot(100.0) for name in ("billing", "audit")] == [
            shell.snapshot(),
            other.snapshot(),
        ]
        written = found.ledgers["billing"]
        assert (written.group_id, written.producer_id, written.settings, written.number) == (7, 4711, SETTINGS, 4)
        assert (found.lost, found.is_doubtful) == (0, False)


async def test_a_snapshot_stands_for_everything_and_numbers_go_on(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        shell = Shell(journal)
        shell.attach()
        nonce = shell.deliver(4)
        await journal.compact([shell.written], shell.now, shell.wall, True)
        shell.ack(nonce, 0, 1)
        found = await found_on(disk.crash())
        assert found.is_doubtful
        found = await found_on(disk.kill())
        assert found.ledgers["billing"].ledger.snapshot(100.0) == shell.snapshot()
        assert (found.lost, found.ledgers["billing"].number) == (0, shell.written.number)


async def test_times_count_from_when_they_were_written(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """A clock that jumped is not believed beyond now."""
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        shell = Shell(journal)
        shell.attach()
        shell.deliver(1, visibility=30.0)
        await journal.close()
    for wall, deadline in ((WALL + 10_000_000, 520.0), (WALL - 99_000_000, 530.0), (WALL, 530.0)):
        found = await found_on(disk.kill(), 500.0, wall)
        assert found.ledgers["billing"].ledger.next_deadline() == pytest.approx(deadline)


async def test_a_forgotten_group_is_gone_and_one_of_the_same_name_is_another(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        shell, again = Shell(journal), Shell(journal, group_id=9)
        shell.attach()
        shell.deliver(3)
        journal.append([forgotten(shell.written, WALL)])
        assert (await found_on(disk.kill())).ledgers == {}
        again.attach(2)
        found = await found_on(disk.kill())
        assert (found.ledgers["billing"].group_id, found.ledgers["billing"].ledger.committed) == (9, 2)
        assert found.lost == 0


async def test_what_follows_a_gap_in_a_groups_numbers_is_not_applied(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: a later delivery would settle what lies before it. The other group is whole."""
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        shell, other = Shell(journal), Shell(journal, "audit", 8)
        shell.attach()
        other.attach()
        await journal.commit()
        begin = disk.size(PATH)
        shell.deliver(3)
        end = disk.size(PATH)
        shell.ack(shell.deliver(3), 3, 5)
        other.ack(other.deliver(2), 0, 1)
        await journal.close()
    disk.flip_bit(PATH, (begin + end) // 2, 0)
    found = await found_on(disk)
    assert found.lost
    assert found.is_doubtful
    assert found.ledgers["billing"].ledger.committed == found.ledgers["billing"].ledger.next_fresh == 0
    assert found.ledgers["audit"].ledger.committed == 2
    assert all(written.is_spent for written in found.ledgers.values())


async def test_a_transfer_under_way_keeps_its_producer_which_is_spent_when_entries_were_lost(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: under another id it would be appended twice. What was lost may have used the numbers behind it."""
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        shell = Shell(journal)
        shell.attach()
        shell.transfer_next(0)
        await journal.commit()
        begin = disk.size(PATH)
        shell.arrive(0)
        shell.transfer_next(1)
        await journal.commit()
        shell.arrive(1)
        await journal.close()
    disk.flip_bit(PATH, begin + 40, 0)
    written = (await found_on(disk)).ledgers["billing"]
    assert (written.producer_id, written.is_spent) == (4711, True)
    transfer = written.ledger.transfer_under_way
    assert transfer is not None
    assert (transfer.sequence, written.ledger.next_sequence) == (0, 1)


@pytest.mark.parametrize("by_snapshot", [False, True])
async def test_a_spent_producer_stays_so_until_another_is_journaled(
    by_snapshot: bool, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        shell = Shell(journal)
        shell.attach()
        shell.written.is_spent = True
        await journal.compact([shell.written], shell.now, shell.wall, True)
        shell.read_on(4711)  # other settings, perhaps
        written = (await found_on(disk.kill())).ledgers["billing"]
        assert (written.producer_id, written.is_spent) == (4711, True)
        shell.read_on(4712)
        if by_snapshot:
            await journal.compact([shell.written], shell.now, shell.wall, True)
        written = (await found_on(disk.kill())).ledgers["billing"]
        assert (written.producer_id, written.is_spent, written.number) == (4712, False, shell.written.number)


async def test_a_torn_tail_spends_the_producer_since_the_last_durable_frame_may_look_like_one(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        shell = Shell(journal)
        shell.attach()
        await journal.commit()
        begin = disk.size(PATH)
        shell.transfer_next(0)
        await journal.commit()
        rotten = disk.kill()
        rotten.flip_bit(PATH, begin + 40, 0)
        found = await found_on(rotten)
        assert (found.lost, found.is_doubtful, found.ledgers["billing"].is_spent) == (0, False, True)
        assert not (await found_on(disk.kill())).ledgers["billing"].is_spent


async def test_a_snapshot_that_does_not_say_whether_the_producer_is_spent_is_read(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        raw, _ = await Journal.open(volume, DIRECTORY, NAME)
        ledger = ["billing", 7, 4711, [3, 1.0, 60.0], 2, Ledger(SETTINGS).snapshot(100.0)]
        await raw.compact(msgpack.packb([1, WALL, False, [ledger]]))
        await raw.close()
        _, found = await open_journal(volume)
        assert not found.ledgers["billing"].is_spent


@pytest.mark.parametrize("has_dead_letters", [True, False])
async def test_settings_come_back_and_older_journals_let_messages_be_given_up(
    has_dead_letters: bool, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """A setting that came later is left out while it has its default, so that today's journals are as before."""
    settings = LedgerSettings(0, key_order=True, has_dead_letters=has_dead_letters)
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        shell = Shell(journal)
        payload = reads_here(shell.written, WALL, settings)
        assert len(payload[6]) == 5 + (not has_dead_letters)
        journal.append([payload])
        await journal.close()
    assert (await found_on(disk.kill())).ledgers["billing"].settings == settings


async def test_a_group_whose_beginning_is_lost_is_not_there(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        shell = Shell(journal)
        begin = disk.size(PATH + NEW)
        shell.attach()
        await journal.commit()
        shell.deliver(3)
        await journal.close()
    disk.flip_bit(PATH, begin + 40, 0)
    found = await found_on(disk)
    assert (found.ledgers, found.is_doubtful) == ({}, True)


async def test_what_was_written_is_durable_after_a_commit_which_those_who_wait_share(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        shell = Shell(journal)
        shell.attach()
        before = disk.counts.syncs
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                shell.deliver(1)
                nursery.start_soon(journal.commit)
        assert disk.counts.syncs - before <= 2
        await journal.commit()
        assert disk.counts.syncs - before <= 2
        for _ in range(20):
            assert (await found_on(disk.crash())).ledgers["billing"].ledger.next_fresh == 10


async def test_an_abandoned_journal_can_be_opened_again(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        Shell(journal).attach()
        journal.abandon()
        _, found = await open_journal(volume)
        assert list(found.ledgers) == ["billing"]


@pytest.mark.parametrize("payload", [[], ["b"], ["billing", 7, WALL, [99, 1], 2], 5, ["billing", 7, WALL, [1]]])
async def test_what_no_goqueue_has_written_is_refused(
    payload: object, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13: a newer one may have."""
    async with mounted(disk) as volume:
        journal, _ = await open_journal(volume)
        Shell(journal).attach()
        await journal.close()
        raw, _ = await Journal.open(volume, DIRECTORY, NAME)
        raw.append([msgpack.packb(payload)])
        await raw.close()
        with pytest.raises(UnknownFormat):
            await open_journal(volume)


async def test_a_snapshot_of_another_version_is_refused(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with mounted(disk) as volume:
        raw, _ = await Journal.open(volume, DIRECTORY, NAME)
        await raw.compact(msgpack.packb([2, WALL, False, []]))
        await raw.close()
        with pytest.raises(UnknownFormat):
            await open_journal(volume)
