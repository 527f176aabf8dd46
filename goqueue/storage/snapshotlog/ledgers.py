"""The companion log of a partition: the entries of all its groups' ledgers, in order, in the folder `groups`.

Each record is a msgpack array. Its first three fields name the group, its id and the wall time in microseconds:

    [group, id, wall, entry, number]                          something happened (core/ledger/entries.py)
    [group, id, wall, [], number, producer, settings, about]    the group reads here, under these; the last holds
    [group, id, wall, nil]                                    the group is forgotten
    snapshot: [1, wall, is_doubtful, [[group, id, producer, settings, number, ledger, is_spent, about] …], part, of]

A snapshot of many ledgers is cut into parts, which count once all of them are there; `part` counts from 0. A part
with a very large ledger is too large for one record, and is cut into pieces: [nil, piece, of, bytes].

`about` is a map: `settings`, the group's settings in the register, so that a lost register can be rebuilt; `lost`,
[wall, shown], says that progress was lost here at this time, with the committed offset that was shown to users
last, or nil. Older files lack it.

Numbers count the entries of one group, without a gap. So lost entries are noticed where they matter: entries behind
a gap are not applied, since they would be taken for more than they say, and the group falls back to its state
before the gap. That repeats messages and skips none (G5). A log that lost anything is doubtful from then on: a
group that is not in it may have been, and begins at the earliest offset.

`producer` is the producer id of the group's dead letters. Where entries were lost it is spent: they may have said
that a transfer ended and that others took the numbers behind it. Messages under one of these numbers would be taken
for a repeat, and be lost. So no further transfer begins with this id: the next one is written together with a new
id, in one batch. A transfer that is under way keeps the old id. Its number is its own, whatever was lost behind it,
and the dead-letter topic knows it if it has arrived; a new id would double it (G5). Dead letters whose entries were
lost are sent once more: nothing here can know of them. A torn tail spends the id as well, since a durable last
batch looks like one once it is damaged.

Up to version 0.1 the entries were in a journal, `ledgers`. Such a file is read once, and written durably as the
first snapshot of a log with a temporary name; then the log gets its name, and the file is kept as
`ledgers.imported`. So a crash leaves the file or the log, and whoever has both has the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, ClassVar, NamedTuple

import msgpack

from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.log.producerids import BROKER_ID_BITS
from goqueue.errors import UnknownFormat
from goqueue.storage.journals.claim import SUFFIX
from goqueue.storage.journals.file import NEW, Replay
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.snapshotlog import LostRecords, SnapshotLog
from goqueue.types import Microseconds

FOLDER = "groups"
"""Below the partition's folder."""
IMPORTING = "groups.importing"
JOURNAL, IMPORTED = "ledgers", "ledgers.imported"
"""The journal of earlier versions, and its name once it was imported."""
VERSION = 1
PART_BYTES = 1024 * 1024
"""A part of a snapshot is full when its ledgers have this many bytes."""
PIECE_BYTES = 8 * 1024 * 1024
"""A larger record is cut into pieces of this size: with its neighbours it has to fit into a batch."""
_MILLION = 1_000_000
_pack = msgpack.Packer().pack
"""One for all: a packer of its own for each entry would begin with 256 KiB of room."""

Payload = list[Any]


class LostProgress(NamedTuple):
    """Some entries of a group are gone, so that messages are redelivered."""

    at: Microseconds
    shown: int | None = None
    """The committed offset that was shown to users last, where all was lost."""


@dataclass(slots=True, eq=False)
class WrittenLedger:
    """A group's ledger as the log has it."""

    ledger_class: ClassVar[type[Ledger]] = Ledger
    """The class of every ledger: the simulator plants bugs by replacing it."""
    group: str
    group_id: int
    producer_id: int
    ledger: Ledger
    number: int = 0
    """The number of its next entry."""
    is_spent: bool = False
    """The producer id has no numbers left but those of the transfer under way."""
    group_settings: dict[str, Any] | None = None
    """The settings of the group in the register; None if they are not known."""
    lost: LostProgress | None = None

    @property
    def settings(self) -> LedgerSettings:
        return self.ledger.settings

    def take_producer(self, producer_id: int) -> None:
        """The producer id that was journaled last. A new one has all its numbers."""
        self.is_spent &= producer_id == self.producer_id
        self.producer_id = producer_id


@dataclass(slots=True)
class FoundLedgers:
    """The contents of the log."""

    ledgers: dict[str, WrittenLedger] = field(default_factory=dict)
    is_doubtful: bool = False
    """Something was lost, now or before."""
    lost: int = 0
    """The number of bytes lost now, and of entries behind them that no longer fit."""
    torn: int = 0
    """The number of bytes cut off at the end: promised to nobody, as far as can be seen."""
    reports: list[str] = field(default_factory=list)
    """What was lost or cut, and where the copy lies."""


def draw_producer_id(random: Random) -> int:
    return random.getrandbits(BROKER_ID_BITS) + 1


class LedgerLog:
    __slots__ = ("log",)

    def __init__(self, log: SnapshotLog) -> None:
        self.log = log

    @classmethod
    async def open(
        cls, volume: Volume, directory: str, leader_epoch: int, now: float, wall: Microseconds
    ) -> tuple["LedgerLog", FoundLedgers]:
        """The log of the partition in this folder, and the ledgers as they are `now`, at the wall time `wall`."""
        imported = await _import_journal(volume, directory, now, wall)
        log, replayed = await SnapshotLog.open(volume, f"{directory}/{FOLDER}", leader_epoch=leader_epoch)
        try:
            found = _Replaying(now, wall).run(replayed.items, replayed.torn)
        except BaseException:
            log.abandon()
            raise
        found.lost += imported.lost
        found.reports = imported.reports + replayed.reports
        return cls(log), found

    @staticmethod
    def is_there(volume: Volume, directory: str) -> bool:
        """Also if only a journal of an earlier version is there, or what is left of one."""
        return volume.disk.is_directory(f"{directory}/{FOLDER}") or _has_journal(volume, directory)

    def append(self, payloads: Sequence[Payload], wall: Microseconds) -> None:
        """All in one write, which survives the end of the process. All or none; `DiskFull` changes nothing."""
        self.log.append([_pack(payload) for payload in payloads], wall)

    async def compact(
        self, ledgers: Sequence[WrittenLedger], now: float, wall: Microseconds, doubtful: bool
    ) -> None:
        await self.log.replace(in_pieces(snapshot_parts(ledgers, now, wall, doubtful)), wall)


def _has_journal(volume: Volume, directory: str) -> bool:
    return Journal.is_there(volume, directory, JOURNAL)


async def _import_journal(volume: Volume, directory: str, now: float, wall: Microseconds) -> FoundLedgers:
    """Returns what was lost of it."""
    if not _has_journal(volume, directory):
        return FoundLedgers()
    if volume.disk.is_directory(f"{directory}/{FOLDER}"):  # a crash came before the journal was renamed
        await _set_journal_aside(volume, directory)
        return FoundLedgers()
    journal, replayed = await Journal.open(volume, directory, JOURNAL)
    journal.abandon()
    found = _Replaying(now, wall).run(*_items_of(replayed))
    snapshot = snapshot_parts([*found.ledgers.values()], now, wall, found.is_doubtful)
    await volume.reserve.with_room(partial(_write_beside, volume, directory, snapshot, wall))
    await _set_journal_aside(volume, directory)
    reports = [*replayed.reports, f"{directory}/{JOURNAL} was imported into {directory}/{FOLDER}"]
    return FoundLedgers(lost=found.lost, reports=reports if replayed.reports else [])


def _items_of(replayed: Replay) -> tuple[list[bytes | LostRecords], int]:
    """The entries of a journal as records of a log. Where they were lost does not matter: their numbers tell."""
    items: list[bytes | LostRecords] = [] if replayed.snapshot is None else [replayed.snapshot]
    lost = [LostRecords(each.position, max(each.end_position, each.position + 1)) for each in replayed.lost]
    return [*items, *lost, *replayed.entries], replayed.torn_size


async def _write_beside(volume: Volume, directory: str, snapshot: Sequence[bytes], wall: Microseconds) -> None:
    """Write a log that begins with this snapshot, durably, and give it its name."""
    folder = f"{directory}/{IMPORTING}"
    for name in volume.disk.list(folder) if volume.disk.is_directory(folder) else []:
        volume.disk.remove(f"{folder}/{name}")  # an import was cut short
    await write_log(volume, folder, snapshot, wall)
    volume.disk.rename(folder, f"{directory}/{FOLDER}")
    volume.forget_folders(folder)
    await volume.sync(directories=[directory])


async def write_log(volume: Volume, folder: str, snapshot: Sequence[bytes], wall: Microseconds) -> None:
    """A new log that holds this snapshot, durably."""
    log, _ = await SnapshotLog.open(volume, folder, leader_epoch=0)
    try:
        await log.replace(in_pieces(snapshot), wall)
        await log.close()
    finally:
        log.abandon()


async def _set_journal_aside(volume: Volume, directory: str) -> None:
    if volume.disk.exists(f"{directory}/{JOURNAL}"):
        volume.disk.rename(f"{directory}/{JOURNAL}", f"{directory}/{IMPORTED}")
    for suffix in (NEW, SUFFIX):
        if volume.disk.exists(f"{directory}/{JOURNAL}{suffix}"):
            volume.disk.remove(f"{directory}/{JOURNAL}{suffix}")
    await volume.sync(directories=[directory])


def snapshot_parts(
    ledgers: Sequence[WrittenLedger],
    now: float,
    wall: Microseconds,
    doubtful: bool,
    part_bytes: float = PART_BYTES,
) -> list[bytes]:
    """The records that stand for all entries of these ledgers, each of about `part_bytes` or of one ledger."""
    parts: list[list[bytes]] = [[]]
    for written in ledgers:
        packed = msgpack.packb(_to_plain(written, now))
        if parts[-1] and sum(map(len, parts[-1])) + len(packed) > part_bytes:
            parts.append([])
        parts[-1].append(packed)
    return [_part(each, [VERSION, wall, doubtful], number, len(parts)) for number, each in enumerate(parts)]


def _part(ledgers: Sequence[bytes], head: list[Any], number: int, count: int) -> bytes:
    packer = msgpack.Packer(autoreset=False)
    packer.pack_array_header(len(head) + 3)
    for each in head:
        packer.pack(each)
    packer.pack_array_header(len(ledgers))
    return b"".join((packer.bytes(), *ledgers, msgpack.packb(number), msgpack.packb(count)))


def in_pieces(records: Sequence[bytes]) -> list[bytes]:
    found = list[bytes]()
    for record in records:
        cuts = range(0, len(record), PIECE_BYTES)
        if len(cuts) <= 1:
            found.append(record)
        else:
            pieces = enumerate(record[at : at + PIECE_BYTES] for at in cuts)
            found += [msgpack.packb([None, number, len(cuts), piece]) for number, piece in pieces]
    return found


def is_snapshot(record: bytes) -> bool:
    return not isinstance(msgpack.unpackb(record)[0], str)


def wall_of(snapshot: bytes) -> Microseconds:
    """When a snapshot was taken."""
    wall: Microseconds = msgpack.unpackb(snapshot)[1]
    return wall


def ids_in(items: Sequence[bytes | LostRecords]) -> dict[str, int]:
    """The groups that have a ledger in a log, and their ids."""
    return {name: written.group_id for name, written in _Replaying(0.0, 0).run(items).ledgers.items()}


def ids_in_journal(replayed: Replay) -> dict[str, int]:
    """The same for a journal of an earlier version."""
    return ids_in(_items_of(replayed)[0])


def happened(written: WrittenLedger, wall: Microseconds, entry: Entry, ahead: int = 0) -> Payload:
    """`ahead`: the number of entries before it in the same write."""
    return [written.group, written.group_id, wall, entry.to_plain(), written.number + ahead]


def reads_here(
    written: WrittenLedger, wall: Microseconds, settings: LedgerSettings, producer_id: int | None = None
) -> Payload:
    """`producer_id`: replaces the one that it has."""
    plain, producer = _settings_to_plain(settings), producer_id or written.producer_id
    return [written.group, written.group_id, wall, [], written.number, producer, plain, _about(written)]


def forgotten(written: WrittenLedger, wall: Microseconds) -> Payload:
    return [written.group, written.group_id, wall, None]


def _settings_to_plain(settings: LedgerSettings) -> list[Any]:
    """The last ones came later, and are left out while they have their defaults."""
    later = [settings.has_dead_letters, *([float(settings.jitter)] if settings.jitter else [])]
    return [
        settings.max_deliveries,
        float(settings.backoff_first),
        float(settings.backoff_max),
        settings.key_order,
        settings.strict_lanes,
        *([] if later == [True] else later),
    ]


def _about(written: WrittenLedger) -> dict[str, Any]:
    return {"settings": written.group_settings, "lost": written.lost}


def _take_about(written: WrittenLedger, later: Sequence[Any]) -> None:
    """From the fields behind the known ones; older files have none."""
    if later:
        written.group_settings = later[0].get("settings")
        lost = later[0].get("lost")
        written.lost = None if lost is None else LostProgress(*lost[:2])


def _to_plain(written: WrittenLedger, now: float) -> list[Any]:
    settings = _settings_to_plain(written.settings)
    ledger = written.ledger.snapshot(now)
    return [
        written.group,
        written.group_id,
        written.producer_id,
        settings,
        written.number,
        ledger,
        written.is_spent,
        _about(written),
    ]


class _Replaying:
    """Entries are applied at the time at which they were written, relative to now. A clock that jumped cannot move
    an entry beyond now, nor before the previous entry."""

    def __init__(self, now: float, wall: Microseconds) -> None:
        self._now, self._wall = now, wall
        self._latest = float("-inf")
        self._found = FoundLedgers()
        self._parts: list[Payload] = []
        """The parts of a snapshot that is not complete yet."""
        self._pieces: list[bytes] = []
        """The same of a part."""

    def run(self, items: Sequence[bytes | LostRecords], torn: int = 0) -> FoundLedgers:
        found = self._found
        found.torn = torn
        try:
            for item in items:
                if isinstance(item, LostRecords):
                    found.lost += item.end_offset - item.offset
                else:
                    self._replay(msgpack.unpackb(item))
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise UnknownFormat(
                "the log of ledgers is not as it is written; use the goqueue that wrote it"
            ) from error
        found.is_doubtful |= found.lost > 0
        if found.lost or found.torn:
            for written in found.ledgers.values():
                written.is_spent = True
                if found.lost:
                    written.lost = LostProgress(self._wall)
        return found

    def _replay(self, payload: Payload) -> None:
        if isinstance(payload[0], str):
            self._take(payload)
        elif payload[0] is None:
            self._take_piece(*payload[1:4])
        else:
            self._take_part(payload)

    def _take_piece(self, number: int, count: int, data: bytes) -> None:
        self._pieces = [*self._pieces, data] if number else [data]
        if number + 1 == count == len(self._pieces):
            whole, self._pieces = b"".join(self._pieces), []
            self._take_part(msgpack.unpackb(whole))

    def _at(self, wall: Microseconds) -> float:
        self._latest = max(self._latest, self._now - max(0, self._wall - wall) / _MILLION)
        return self._latest

    def _take_part(self, payload: Payload) -> None:
        version, *_ = payload
        number, count = payload[4:6] or (0, 1)
        if version != VERSION:
            raise UnknownFormat(f"ledgers of version {version!r} are unknown; start a goqueue that knows them")
        self._parts = [*self._parts, payload] if number else [payload]
        if number + 1 == count == len(self._parts):
            self._restore(self._parts)
            self._parts = []

    def _restore(self, parts: Sequence[Payload]) -> None:
        """A snapshot replaces everything, also what was lost before it."""
        found = self._found
        found.ledgers, found.lost, found.is_doubtful = {}, 0, parts[0][2]
        at = self._at(parts[0][1])
        for group, group_id, producer_id, settings, number, plain, *later in (
            row for part in parts for row in part[3]
        ):
            ledger = WrittenLedger.ledger_class.restore(plain, LedgerSettings(*settings), at)
            written = WrittenLedger(group, group_id, producer_id, ledger, number, later[:1] == [True])
            _take_about(written, later[1:])
            found.ledgers[group] = written

    def _take(self, payload: Payload) -> None:
        group, group_id, wall, plain, *more = payload
        if plain is None:
            self._found.ledgers.pop(group, None)
            return
        written = self._find(group, group_id, plain, more)
        if written is None or (written.group_id, written.number) != (group_id, more[0]):
            self._found.lost += 1
            return
        if plain:
            written.ledger.apply(Entry.from_plain(plain), self._at(wall))
        else:
            written.ledger.settings = LedgerSettings(*more[2])
            written.take_producer(more[1])
            _take_about(written, more[3:])
        written.number += 1

    def _find(self, group: str, group_id: int, plain: list[Any], more: Payload) -> WrittenLedger | None:
        """A group's ledger begins with its first payload, which has number 0 and no entry."""
        written = self._found.ledgers.get(group)
        is_first = not plain and more[0] == 0
        if is_first and (written is None or written.group_id != group_id):
            written = WrittenLedger(group, group_id, more[1], WrittenLedger.ledger_class(LedgerSettings()))
            self._found.ledgers[group] = written
        return written
