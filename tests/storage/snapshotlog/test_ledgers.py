"""The companion log of a partition: what is written comes back, and what is lost is noticed."""

from collections.abc import Sequence
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
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog import ledgers
from goqueue.storage.snapshotlog.ledgers import (
    FOLDER,
    IMPORTED,
    IMPORTING,
    JOURNAL,
    FoundLedgers,
    LedgerLog,
    Payload,
    WrittenLedger,
    forgotten,
    happened,
    reads_here,
    snapshot_parts,
    write_log,
)
from goqueue.storage.snapshotlog.snapshotlog import SnapshotLog
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Priority
from tests.storage.logs import mounted
from tests.storage.snapshotlog.images import images_at

DIRECTORY = "/data/logs/orders/0"
PATH = f"{DIRECTORY}/{FOLDER}/{0:020d}.log"
WALL = 1_700_000_000_000_000
SETTINGS = LedgerSettings(max_deliveries=5, backoff_first=0.5, backoff_max=8.0)


class Shell:
    """Writes what happens to a ledger, then lets it happen, as a partition does."""

    def __init__(self, log: LedgerLog, group: str = "billing", group_id: int = 7) -> None:
        self.log = log
        self.written = WrittenLedger(group, group_id, 4711, Ledger(SETTINGS))
        self.now, self.wall, self.nonce = 100.0, WALL, 0

    def attach(self, offset: int = 0) -> None:
        began = self.written.ledger.begin(offset)
        payloads = [reads_here(self.written, self.wall, SETTINGS), happened(self.written, self.wall, began, 1)]
        self.log.append(payloads, self.wall)
        self.written.ledger.apply(began, self.now)
        self.written.number += 2

    def write(self, *entries: Entry | None) -> None:
        there = [entry for entry in entries if entry is not None]
        self.log.append([happened(self.written, self.wall, entry, n) for n, entry in enumerate(there)], self.wall)
        for entry in there:
            self.written.ledger.apply(entry, self.now)
            self.written.number += 1

    def deliver(self, count: int, visibility: float = 30.0, *, tells_begun: bool = False) -> int:
        first, self.nonce = self.written.ledger.next_fresh, self.nonce + 1
        scan = LaneScan(Priority.NORMAL, first + count, (), [Run(first, first + count - 1)])
        plan = self.written.ledger.plan(self.now, "ann", count, is_busy=False)
        to = Recipient(self.wall, "ann", self.nonce, visibility, tells_begun)
        self.write(*self.written.ledger.hand_out(self.now, to, plan, Scanned([scan])).entries)
        return self.nonce

    def ack(self, nonce: int, first: int, last: int) -> None:
        self.write(self.written.ledger.ack(self.now, nonce, [AttemptRun(first, last, 1)])[0])

    def begin(self, nonce: int, first: int, last: int) -> None:
        self.write(self.written.ledger.note_begun(self.now, nonce, [AttemptRun(first, last, 1)])[0])

    def transfer_next(self, sequence: int) -> None:
        """One more message is given up and leaves."""
        offset, nonce = self.written.ledger.next_fresh, self.deliver(1)
        runs = [AttemptRun(offset, offset, 1)]
        self.write(self.written.ledger.reject(self.now, nonce, runs, "bad")[0])
        self.write(self.written.ledger.begin_transfer(sequence, [Run(offset, offset)]))

    def arrive(self, sequence: int) -> None:
        self.write(self.written.ledger.transferred(sequence))

    def read_on(self, producer_id: int) -> None:
        self.log.append([reads_here(self.written, self.wall, SETTINGS, producer_id)], self.wall)
        self.written.take_producer(producer_id)
        self.written.number += 1

    def snapshot(self) -> object:
        return self.written.ledger.snapshot(self.now)


async def open_log(volume: Volume, now: float = 100.0, wall: int = WALL) -> tuple[LedgerLog, FoundLedgers]:
    return await LedgerLog.open(volume, DIRECTORY, 1, now, wall)


async def found_on(disk: SimulatedDisk, now: float = 100.0, wall: int = WALL) -> FoundLedgers:
    async with mounted(disk) as volume:
        return (await open_log(volume, now, wall))[1]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def test_what_was_written_comes_back(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with mounted(disk) as volume:
        log, found = await open_log(volume)
        assert (found.ledgers, found.lost, found.is_doubtful) == ({}, 0, False)
        shell, other = Shell(log), Shell(log, "audit", 8)
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


@pytest.mark.parametrize("compacted", [False, True])
async def test_what_was_begun_is_known_after_a_kill(
    compacted: bool, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        shell = Shell(log)
        shell.attach()
        shell.begin(shell.deliver(5, tells_begun=True), 1, 2)
        if compacted:
            await log.compact([shell.written], shell.now, shell.wall, doubtful=False)
        ledger = (await found_on(disk.kill())).ledgers["billing"].ledger
        assert (ledger.snapshot(100.0), ledger.count_not_begun()) == (shell.snapshot(), 3)


@pytest.mark.parametrize("piece_bytes", [7, ledgers.PIECE_BYTES])
async def test_a_snapshot_stands_for_everything_and_numbers_go_on(
    piece_bytes: int, disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large a ledger is: one that fits into no record is cut into pieces."""
    monkeypatch.setattr(ledgers, "PIECE_BYTES", piece_bytes)
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        shell = Shell(log)
        shell.attach()
        nonce = shell.deliver(4)
        await log.compact([shell.written], shell.now, shell.wall, True)
        shell.ack(nonce, 0, 1)
        found = await found_on(disk.crash())
        assert found.is_doubtful
        found = await found_on(disk.kill())
        assert found.ledgers["billing"].ledger.snapshot(100.0) == shell.snapshot()
        assert (found.lost, found.ledgers["billing"].number) == (0, shell.written.number)


async def test_times_count_from_when_they_were_written(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """A clock that jumped is not believed beyond now."""
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        shell = Shell(log)
        shell.attach()
        shell.deliver(1, visibility=30.0)
        await log.log.close()
    for wall, deadline in ((WALL + 10_000_000, 520.0), (WALL - 99_000_000, 530.0), (WALL, 530.0)):
        found = await found_on(disk.kill(), 500.0, wall)
        assert found.ledgers["billing"].ledger.next_deadline() == pytest.approx(deadline)


async def test_a_forgotten_group_is_gone_and_one_of_the_same_name_is_another(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        shell, again = Shell(log), Shell(log, group_id=9)
        shell.attach()
        shell.deliver(3)
        log.append([forgotten(shell.written, WALL)], WALL)
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
        log, _ = await open_log(volume)
        shell, other = Shell(log), Shell(log, "audit", 8)
        shell.attach()
        other.attach()
        await log.log.commit()
        begin = disk.size(PATH)
        shell.deliver(3)
        end = disk.size(PATH)
        shell.ack(shell.deliver(3), 3, 5)
        other.ack(other.deliver(2), 0, 1)
        await log.log.close()
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
        log, _ = await open_log(volume)
        shell = Shell(log)
        shell.attach()
        shell.transfer_next(0)
        await log.log.commit()
        begin = disk.size(PATH)
        shell.arrive(0)
        shell.transfer_next(1)
        await log.log.commit()
        shell.arrive(1)
        await log.log.close()
    disk.flip_bit(PATH, begin + 40, 0)
    written = (await found_on(disk)).ledgers["billing"]
    assert (written.producer_id, written.is_spent) == (4711, True)
    transfer = written.ledger.transfer_under_way
    assert transfer is not None
    assert (transfer.sequence, written.ledger.next_sequence) == (0, 1)


@pytest.mark.parametrize("by_snapshot", [False, True])
async def test_a_spent_producer_stays_so_until_another_is_written(
    by_snapshot: bool, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        shell = Shell(log)
        shell.attach()
        shell.written.is_spent = True
        await log.compact([shell.written], shell.now, shell.wall, True)
        shell.read_on(4711)  # other settings, perhaps
        written = (await found_on(disk.kill())).ledgers["billing"]
        assert (written.producer_id, written.is_spent) == (4711, True)
        shell.read_on(4712)
        if by_snapshot:
            await log.compact([shell.written], shell.now, shell.wall, True)
        written = (await found_on(disk.kill())).ledgers["billing"]
        assert (written.producer_id, written.is_spent, written.number) == (4712, False, shell.written.number)


async def test_a_torn_tail_spends_the_producer_since_the_last_durable_batch_may_look_like_one(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        shell = Shell(log)
        shell.attach()
        await log.log.commit()
        begin = disk.size(PATH)
        shell.transfer_next(0)
        await log.log.commit()
        rotten = disk.kill()
        rotten.flip_bit(PATH, begin + 40, 0)
        found = await found_on(rotten)
        assert (found.lost, found.is_doubtful, found.ledgers["billing"].is_spent) == (0, False, True)
        assert not (await found_on(disk.kill())).ledgers["billing"].is_spent


async def test_a_snapshot_that_does_not_say_whether_the_producer_is_spent_is_read(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        ledger = ["billing", 7, 4711, [3, 1.0, 60.0], 2, Ledger(SETTINGS).snapshot(100.0)]
        await write_log(volume, f"{DIRECTORY}/{FOLDER}", [msgpack.packb([1, WALL, False, [ledger]])], WALL)
        _, found = await open_log(volume)
        assert not found.ledgers["billing"].is_spent


@pytest.mark.parametrize(("has_dead_letters", "jitter", "more"), [(True, 0, 0), (False, 0, 1), (True, 0.25, 2)])
async def test_settings_come_back_and_older_logs_let_messages_be_given_up(
    has_dead_letters: bool, jitter: float, more: int, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """A setting that came later is left out while it has its default, so other records stay as before."""
    settings = LedgerSettings(0, key_order=True, has_dead_letters=has_dead_letters, jitter=jitter)
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        shell = Shell(log)
        payload = reads_here(shell.written, WALL, settings)
        assert len(payload[6]) == 5 + more
        log.append([payload], WALL)
        await log.log.close()
    assert (await found_on(disk.kill())).ledgers["billing"].settings == settings


async def test_a_group_whose_beginning_is_lost_is_not_there(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        shell = Shell(log)
        shell.attach()
        await log.log.commit()
        shell.deliver(3)
        await log.log.close()
    disk.flip_bit(PATH, 40, 0)
    found = await found_on(disk)
    assert (found.ledgers, found.is_doubtful) == ({}, True)


async def test_what_was_written_is_durable_after_a_commit_which_those_who_wait_share(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        shell = Shell(log)
        shell.attach()
        before = disk.counts.syncs
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                shell.deliver(1)
                nursery.start_soon(log.log.commit)
        assert disk.counts.syncs - before <= 2
        await log.log.commit()
        assert disk.counts.syncs - before <= 2
        for _ in range(20):
            assert (await found_on(disk.crash())).ledgers["billing"].ledger.next_fresh == 10


async def test_an_abandoned_log_can_be_opened_again(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        Shell(log).attach()
        log.log.abandon()
        _, found = await open_log(volume)
        assert list(found.ledgers) == ["billing"]


@pytest.mark.parametrize("payload", [[], ["b"], ["billing", 7, WALL, [99, 1], 2], 5, ["billing", 7, WALL, [1]]])
async def test_what_no_goqueue_has_written_is_refused(
    payload: object, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13: a newer one may have."""
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        Shell(log).attach()
        await log.log.close()
        raw, _ = await SnapshotLog.open(volume, f"{DIRECTORY}/{FOLDER}", leader_epoch=1)
        raw.append([msgpack.packb(payload)], WALL)
        await raw.close()
        with pytest.raises(UnknownFormat):
            await open_log(volume)


async def test_a_snapshot_of_another_version_is_refused(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with mounted(disk) as volume:
        await write_log(volume, f"{DIRECTORY}/{FOLDER}", [msgpack.packb([2, WALL, False, []])], WALL)
        with pytest.raises(UnknownFormat):
            await open_log(volume)


# Parts of a snapshot


async def test_a_snapshot_of_many_ledgers_is_cut_into_parts(
    disk: SimulatedDisk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        shells = [Shell(log, f"group-{number}", number) for number in range(9)]
        for number, shell in enumerate(shells):
            shell.attach(number)
        parts = snapshot_parts([each.written for each in shells], 100.0, WALL, False, part_bytes=300)
        assert len(parts) > 3
        await log.log.replace(parts, WALL)
        shells[4].deliver(2)
        found = await found_on(disk.kill())
        assert {name: written.ledger.committed for name, written in found.ledgers.items()} == {
            f"group-{number}": number for number in range(9)
        }
        assert (found.lost, found.ledgers["group-4"].number) == (0, shells[4].written.number)


async def test_a_snapshot_without_all_its_parts_counts_for_nothing(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: a power loss may leave only the first of its batches."""
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        shells = [Shell(log, f"group-{number}", number) for number in range(4)]
        for shell in shells:
            shell.attach(7)
        parts = snapshot_parts([each.written for each in shells], 100.0, WALL, False, part_bytes=1)
        log.log.append(parts[:-1], WALL)
        found = await found_on(disk.kill())
        assert sorted(found.ledgers) == [each.written.group for each in shells]
        log.log.append(parts, WALL)
        assert sorted((await found_on(disk.kill())).ledgers) == [each.written.group for each in shells]


# Journals of earlier versions


async def old_journal(volume: Volume, *, compacted: bool = False) -> tuple[Journal, WrittenLedger]:
    """As an earlier version left it: a group that began at 3, had four messages and acked three."""
    journal, _ = await Journal.open(volume, DIRECTORY, JOURNAL)
    shell = Shell(_Old(journal))
    shell.attach(3)
    nonce = shell.deliver(4)
    if compacted:
        await journal.compact(snapshot_parts([shell.written], shell.now, shell.wall, False)[0])
    shell.ack(nonce, 3, 5)
    await journal.commit()
    return journal, shell.written


class _Old(LedgerLog):
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def append(self, payloads: Sequence[Payload], wall: int) -> None:
        self._journal.append([msgpack.packb(payload) for payload in payloads])


@pytest.mark.parametrize("compacted", [False, True])
async def test_a_journal_is_imported_once_and_kept(
    compacted: bool, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        journal, written = await old_journal(volume, compacted=compacted)
        await journal.close()
        assert LedgerLog.is_there(volume, DIRECTORY)
        log, found = await open_log(volume)
        assert found.ledgers["billing"].ledger.snapshot(100.0) == written.ledger.snapshot(100.0)
        assert (found.lost, found.torn, found.is_doubtful, found.reports) == (0, 0, False, [])
        assert sorted(disk.list(DIRECTORY)) == [FOLDER, IMPORTED]
        shell = Shell(log)
        shell.written = found.ledgers["billing"]
        shell.nonce = 50
        shell.deliver(1)
        await log.log.commit()
    for image in (disk.crash(), disk.kill()):
        again = await found_on(image)
        assert again.ledgers["billing"].ledger.next_fresh == 8
        assert again.lost == 0


async def test_a_crash_during_an_import_loses_nothing(autojump_clock: MockClock) -> None:
    """The disk is stopped at every step of it, and once more during the import that follows."""
    for step in range(1, 60):
        disk = SimulatedDisk(Random(step))
        async with mounted(disk) as volume:
            journal, written = await old_journal(volume, compacted=step % 2 == 0)
            await journal.close()
            images = images_at(disk, step)
            await open_log(volume)
        for image in images:
            again = images_at(image, step % 7 + 1)
            for each in (await found_on(image), *[await found_on(later) for later in again]):
                assert each.ledgers["billing"].ledger.snapshot(100.0) == written.ledger.snapshot(100.0)
                assert each.lost == 0
            assert not image.exists(f"{DIRECTORY}/{JOURNAL}")
            assert not image.exists(f"{DIRECTORY}/{IMPORTING}")


async def test_a_damaged_journal_is_imported_as_far_as_it_is_sound(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13: the copy stays, and what was lost is told once; the group falls back."""
    async with mounted(disk) as volume:
        journal, _ = await old_journal(volume)
        await journal.close()
        disk.flip_bit(f"{DIRECTORY}/{JOURNAL}", disk.size(f"{DIRECTORY}/{JOURNAL}") // 2, 0)
        log, found = await open_log(volume)
        await log.log.close()
        assert found.lost
        assert found.is_doubtful
        assert found.ledgers["billing"].is_spent
        assert found.reports
        assert any(name.endswith(".damaged") for name in disk.list(DIRECTORY))
        _, again = await open_log(volume)
        assert (again.lost, again.is_doubtful, again.ledgers["billing"].is_spent) == (0, True, True)
        assert again.ledgers["billing"].lost == found.ledgers["billing"].lost


async def test_a_journal_beside_the_log_is_older_and_set_aside(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        log, _ = await open_log(volume)
        Shell(log, "audit", 8).attach()
        await log.log.close()
        journal, _ = await old_journal(volume)
        await journal.close()
        _, found = await open_log(volume)
        assert list(found.ledgers) == ["audit"]
        assert disk.exists(f"{DIRECTORY}/{IMPORTED}")


async def test_a_journal_that_is_gone_but_for_its_claim_is_lost(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with mounted(disk) as volume:
        journal, _ = await old_journal(volume)
        await journal.close()
        disk.remove(f"{DIRECTORY}/{JOURNAL}")
        assert LedgerLog.is_there(volume, DIRECTORY)
        _, found = await open_log(volume)
        assert (found.ledgers, found.is_doubtful) == ({}, True)
        assert found.lost
