"""The journal of a partition's ledgers: the entries of all groups on this partition, in order.

Each payload is a msgpack array. Its first three fields name the group, its id and the wall time in microseconds:

    [group, id, wall, entry, number]                          something happened (core/ledger/entries.py)
    [group, id, wall, [], number, producer, settings, about]    the group reads here, under these; the last holds
    [group, id, wall, nil]                                    the group is forgotten
    snapshot: [1, wall, is_doubtful, [[group, id, producer, settings, number, ledger, is_spent, about] …]]

`about` is a map: `settings`, the group's settings in the register, so that a lost register can be rebuilt; `lost`,
[wall, shown], says that progress was lost here at this time, with the committed offset that was shown to users
last, or nil. Older files lack it.

Numbers count the entries of one group, without a gap. So lost entries are noticed where they matter: entries behind
a gap are not applied, since they would be taken for more than they say, and the group falls back to its state
before the gap. That repeats messages and skips none (G5). A journal that lost anything is doubtful from then on: a
group that is not in it may have been, and begins at the earliest offset.

`producer` is the producer id of the group's dead letters. Where entries were lost it is spent: they may have said
that a transfer ended and that others took the numbers behind it. Messages under one of these numbers would be taken
for a repeat, and be lost. So no further transfer begins with this id: the next one is written together with a new
id, in one frame. A transfer that is under way keeps the old id. Its number is its own, whatever was lost behind it,
and the dead-letter topic knows it if it has arrived; a new id would double it (G5). Dead letters whose entries were
lost are sent once more: nothing here can know of them. A torn tail spends the id as well, since a durable last
frame looks like one once it is damaged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, NamedTuple

import msgpack
import trio

from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.ledger import Ledger
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.log.producerids import BROKER_ID_BITS
from goqueue.errors import UnknownFormat
from goqueue.storage.journals.file import Replay
from goqueue.storage.journals.journal import Journal
from goqueue.storage.log.volume import Volume
from goqueue.types import Microseconds

NAME = "ledgers"
VERSION = 1
GROWN_BYTES = 1024 * 1024
GROWN_TIMES = 4
_MILLION = 1_000_000

Payload = list[Any]


class LostProgress(NamedTuple):
    """Some journal entries of a group are gone, so that messages are redelivered."""

    at: Microseconds
    shown: int | None = None
    """The committed offset that was shown to users last, where all was lost."""


@dataclass(slots=True, eq=False)
class WrittenLedger:
    """A group's ledger as the journal has it."""

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
    """The contents of a journal."""

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


class LedgerJournal:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.written = self.durable = 0
        """The number of writes, and of those that are durable."""
        self._turn = trio.Lock()
        self._snapshot_size = 0

    @classmethod
    async def open(
        cls, volume: Volume, directory: str, now: float, wall: Microseconds
    ) -> tuple["LedgerJournal", FoundLedgers]:
        """The journal, and the ledgers as they are `now`, which is the wall time `wall`."""
        journal, replayed = await Journal.open(volume, directory, NAME)
        try:
            found = _Replaying(now, wall).run(replayed)
        except BaseException:
            await journal.close()
            raise
        return cls(journal), found

    @property
    def has_grown(self) -> bool:
        """Whether a snapshot would make the file much smaller."""
        return self._journal.size > max(GROWN_BYTES, GROWN_TIMES * self._snapshot_size)

    def append(self, payloads: Sequence[Payload]) -> None:
        """All in one write, which survives the end of the process. All or none; `DiskFull` changes nothing."""
        self._journal.append([msgpack.packb(payload) for payload in payloads])
        self.written += 1

    async def commit(self) -> None:
        """Make everything written so far durable. Callers whose writes another caller's sync covers share it."""
        wanted = self.written
        async with self._turn:
            if self.durable < wanted:
                reached = self.written
                await self._journal.commit()
                self.durable = reached

    def claim(self) -> None:
        """Say how much is durable, so that a start knows what it lost."""
        self._journal.claim()

    async def compact(
        self, ledgers: Sequence[WrittenLedger], now: float, wall: Microseconds, doubtful: bool
    ) -> None:
        snapshot = snapshot_of(ledgers, now, wall, doubtful)
        await self._journal.compact(snapshot)
        self._snapshot_size = len(snapshot)

    async def close(self) -> None:
        """Make everything durable (G15)."""
        await self._journal.close()

    def abandon(self) -> None:
        """The owner crashed: close the file and leave it as it is."""
        self._journal.abandon()


def snapshot_of(ledgers: Sequence[WrittenLedger], now: float, wall: Microseconds, doubtful: bool) -> bytes:
    """The snapshot that replaces all their entries."""
    packed: bytes = msgpack.packb([VERSION, wall, doubtful, [_to_plain(written, now) for written in ledgers]])
    return packed


def ids_in(replayed: Replay) -> dict[str, int]:
    """The groups that have a ledger in a journal, and their ids."""
    return {name: written.group_id for name, written in _Replaying(0.0, 0).run(replayed).ledgers.items()}


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
    return [
        settings.max_deliveries,
        float(settings.backoff_first),
        float(settings.backoff_max),
        settings.key_order,
        settings.strict_lanes,
        *([] if settings.has_dead_letters else [False]),
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

    def run(self, replayed: Replay) -> FoundLedgers:
        found = self._found
        found.lost = sum(lost.end_position - lost.position or 1 for lost in replayed.lost)
        found.torn, found.reports = replayed.torn_size, replayed.reports
        try:
            self._restore(replayed.snapshot)
            for payload in replayed.entries:
                self._take(msgpack.unpackb(payload))
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise UnknownFormat(
                "the ledgers' journal is not as it is written; use the goqueue that wrote it"
            ) from error
        found.is_doubtful |= found.lost > 0
        if found.lost or found.torn:
            for written in found.ledgers.values():
                written.is_spent = True
                if found.lost:
                    written.lost = LostProgress(self._wall)
        return found

    def _at(self, wall: Microseconds) -> float:
        self._latest = max(self._latest, self._now - max(0, self._wall - wall) / _MILLION)
        return self._latest

    def _restore(self, snapshot: bytes | None) -> None:
        if snapshot is None:
            return
        version, wall, self._found.is_doubtful, ledgers, *_ = msgpack.unpackb(snapshot)
        if version != VERSION:
            raise UnknownFormat(f"ledgers of version {version!r} are unknown; start a goqueue that knows them")
        at = self._at(wall)
        for group, group_id, producer_id, settings, number, plain, *later in ledgers:
            ledger = WrittenLedger.ledger_class.restore(plain, LedgerSettings(*settings), at)
            written = WrittenLedger(group, group_id, producer_id, ledger, number, later[:1] == [True])
            _take_about(written, later[1:])
            self._found.ledgers[group] = written

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
