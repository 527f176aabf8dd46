"""Opening what a crash left behind.

Sealed segments are believed by the head of their seal. Every other one is scanned: from the recovery point if it
covers the segment, else from its first byte. Where the scan meets damage, the question is whether those bytes
were ever durable:

- the *floor* is the highest offset below which everything was certainly fsynced: the recovery point, the ends of
  seals and the durable offsets that sound batches claim, also those behind the damage;
- damage at or above the floor is a **torn tail**: nobody was promised it. It is copied aside and cut, and with it
  everything behind;
- damage below the floor is **rot**: it stays where it is, is named, and the log goes on behind it in a new segment.

Nothing is deleted because something else is missing (G13): a lost recovery point or seal costs a scan, a lost
segment is named as damage, and offsets that were promised once are never given out again (G3).
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise

from goqueue.core.log.producers import ProducerStates
from goqueue.storage.log.index import SparseIndex
from goqueue.storage.log.producersnapshot import FoundProducers, read_producers, replayed_producers
from goqueue.storage.log.recoverypoint import RecoveryPoint, read_recovery_point
from goqueue.storage.log.scan import Damage, FoundBatch, Scanner
from goqueue.storage.log.segment import (
    LOG,
    SEAL,
    Segment,
    is_of_file,
    load_index,
    merged_into,
    read_head,
    read_history,
    segment_stem,
)
from goqueue.storage.log.summary import History, Summary
from goqueue.storage.log.volume import TEMPORARY, Volume
from goqueue.types import Microseconds, Offset

SEGMENT_NAME = re.compile(r"[0-9]{20}\.log")
ACCELERATOR_NAME = re.compile(r"[0-9]{20}\.(index|timeindex|seal)")
TORN = ".torn"


@dataclass(frozen=True, slots=True)
class TornTail:
    """Bytes that were cut off the log's end, and where they are kept."""

    path: str
    offset: Offset
    size: int
    kept_as: str


@dataclass(slots=True)
class Recovered:
    segments: list[Segment] = field(default_factory=list)
    growing: Segment | None = None
    """The last of `segments`, if it may grow on."""
    unsealed: list[tuple[Segment, History]] = field(default_factory=list)
    """Finished segments that wait for their seal."""
    history: History = field(default_factory=History)
    log_start: Offset = 0
    end_offset: Offset = 0
    leader_epoch: int = 0
    append_time: Microseconds = 0
    compacted_to: Offset = 0
    damage: list[Damage] = field(default_factory=list)
    torn: list[TornTail] = field(default_factory=list)
    scanned_bytes: int = 0
    producers_from: Offset | None = None
    """The producers were in a file of their own, and batches from here on were replayed."""
    as_left: bool = False
    """The log ends, and grows, just as its recovery point says: nothing is there that was not durable then."""


@dataclass(slots=True)
class Scan:
    """The scan of one unsealed segment."""

    segment: Segment
    scanner: Scanner
    index: SparseIndex
    history: History
    facts_from: Offset
    """Summary and history know everything below this offset already."""
    sound_end: int = 0
    """The position behind the last batch, or behind the last rot that a batch follows."""

    def __post_init__(self) -> None:
        self.sound_end = self.scanner.position

    def take(self, found: FoundBatch) -> None:
        envelope = found.envelope
        self.index.note(self.segment.base_offset, found.position, envelope)
        if envelope.base_offset >= self.facts_from:
            self.segment.summary.note(envelope)
            self.history.note(envelope)
        self.sound_end = found.end_position

    def pass_over(self, damage: Damage) -> None:
        summary = self.segment.summary
        self.history.damage.append((damage.position, damage.end_position, damage.offset, damage.end_offset))
        summary.damaged = True
        summary.end_offset = max(summary.end_offset, damage.end_offset)
        self.sound_end = damage.end_position


async def recover(volume: Volume, directory: str) -> Recovered:
    """Recover the log in this folder: cut a torn tail, and change nothing else."""
    return await Recovery(volume, directory).run()


class Recovery:
    def __init__(self, volume: Volume, directory: str) -> None:
        self._volume = volume
        self._disk = volume.disk
        self._directory = directory
        self._point: RecoveryPoint | None = None
        self._floor: Offset = 0
        self._bases: list[Offset] = []
        self._sealed: dict[Offset, Segment] = {}
        self._result = Recovered()

    async def run(self) -> Recovered:
        self._point = await read_recovery_point(self._volume, self._directory)
        self._list_segments()
        await self._read_seals()
        self._take_point()
        await self._check_beginning()
        for number, base in enumerate(self._bases):
            sealed = self._sealed.get(base)
            if sealed is not None:
                await self._take_sealed(sealed, number)
            elif not await self._take_unsealed(number):
                break
        await self._finish()
        return self._result

    # What is there

    def _list_segments(self) -> None:
        names = self._disk.list(self._directory)
        stems = {name.removesuffix(LOG) for name in names if SEGMENT_NAME.fullmatch(name)}
        for name in names:
            orphan = ACCELERATOR_NAME.fullmatch(name) and name.partition(".")[0] not in stems
            if name.endswith(TEMPORARY) or orphan:
                self._disk.remove(f"{self._directory}/{name}")
        bases = sorted(map(int, stems))
        start = self._point.log_start if self._point else 0
        # A crash may have come between the new start of the log and the removal of the segments before it.
        removed = [base for base, next_base in pairwise(bases) if next_base <= start]
        for base in removed:
            self._segment(base).remove_files()
        self._bases = bases[len(removed) :]

    def _segment(self, base: Offset) -> Segment:
        return Segment(self._volume, self._directory, Summary(base, base))

    def _next_base(self, number: int) -> Offset | None:
        return self._bases[number + 1] if number + 1 < len(self._bases) else None

    async def _read_seals(self) -> None:
        number = 0
        while number < len(self._bases):  # some may be removed meanwhile
            base = self._bases[number]
            path = f"{self._directory}/{segment_stem(base)}"
            head = await read_head(self._volume, path + SEAL)
            if head is not None and is_of_file(head, base, self._disk.size(path + LOG)):
                await self._clear_merged(head.summary, number)
                if self._next_base(number) in (None, head.summary.end_offset):
                    self._sealed[base] = Segment.of_seal(self._volume, self._directory, head)
            number += 1

    async def _clear_merged(self, summary: Summary, number: int) -> None:
        """A crash may have come between a merge and the removal of the segments that it took in."""
        segment = Segment(self._volume, self._directory, summary)
        taken_in = await merged_into(segment, self._bases[number + 1 :])
        for base in reversed(taken_in):
            self._segment(base).remove_files()
        del self._bases[number + 1 : number + 1 + len(taken_in)]

    def _take_point(self) -> None:
        """Take the floor and the log's beginning from the recovery point and the seals."""
        result, point = self._result, self._point
        first = self._bases[0] if self._bases else 0
        ends = [segment.end_offset for segment in self._sealed.values()]
        self._floor = max([point.offset if point else 0, *ends])
        result.log_start = point.log_start if point else first
        result.leader_epoch = point.leader_epoch if point else 0
        result.compacted_to = point.compacted_to if point else 0

    async def _check_beginning(self) -> None:
        """The first segment may be missing: never durable, and with it nothing behind it, or lost since."""
        start = self._result.log_start
        if not self._bases or self._bases[0] <= start:
            return
        missing = Damage(self._directory, 0, 0, start, self._bases[0])
        if await self.is_torn(missing, None):
            await self._set_aside(self._bases)
            self._bases = []
        else:
            self._result.damage.append(missing)

    # Segment by segment

    async def _take_sealed(self, segment: Segment, number: int) -> None:
        self._result.segments.append(segment)
        next_is_sealed = self._next_base(number) in self._sealed
        if next_is_sealed and not segment.summary.damaged:
            return  # its history is in the next seal too
        history = await read_history(self._volume, segment.path(SEAL))
        if history is None:
            self._result.segments.pop()
            await self._take_unsealed(number)
            return
        for begin, end, offset, end_offset in history.damage:
            self._result.damage.append(Damage(segment.path(), begin, end, offset, end_offset))
        self._result.history = history.of_log()

    async def _take_unsealed(self, number: int) -> bool:
        """Scan a segment; False when its tail was torn, so that nothing behind it counts."""
        segment = self._segment(self._bases[number])
        with self._volume.reader(segment.path()) as file:
            scan = await self._begin(
                segment, Scanner(file, position=0, offset=segment.base_offset, size=file.size())
            )
            begin = scan.scanner.position
            damage = await self._scan_to_torn(scan, number)
            self._result.scanned_bytes += scan.scanner.position - begin
        segment.summary.size = damage.position if damage is not None else scan.scanner.size
        self._result.segments.append(segment)
        self._result.history = scan.history
        if damage is not None:
            await self._cut(segment, damage, number)
            self._grow(segment, scan.index)
            return False
        if self._next_base(number) is not None or segment.summary.damaged:
            self._finish_segment(scan, number)
        else:
            self._grow(segment, scan.index)
        return True

    def _grow(self, segment: Segment, index: SparseIndex) -> None:
        segment.grow_from(index)
        self._result.growing = segment

    async def _begin(self, segment: Segment, scanner: Scanner) -> Scan:
        """From the recovery point where it covers this segment, else from the segment's first byte."""
        point = self._point
        head = point.growing_head() if point else None
        history = point.growing_history(head) if point and head else None
        if point is None or head is None or history is None or head.summary.base_offset != segment.base_offset:
            return Scan(segment, scanner, SparseIndex(), self._result.history, segment.base_offset)
        segment.summary = head.summary
        index = await load_index(segment, head.mark, history.lanes)
        if index is not None:
            segment.mark = head.mark
            scanner.position = point.scan_from.position
            scanner.offset += point.scan_from.relative_offset
        return Scan(segment, scanner, index or SparseIndex(), history.of_log(), point.offset)

    async def _scan_to_torn(self, scan: Scan, number: int) -> Damage | None:
        """Take everything sound. Rot is noted and passed; a torn tail ends the scan and is returned."""
        while items := await scan.scanner.next():
            for item in items:
                if isinstance(item, FoundBatch):
                    scan.take(item)
                elif await self.is_torn(item, number):
                    return item
                else:
                    self._note_rot(scan, item)
        return await self._check_end(scan, number)

    async def _check_end(self, scan: Scan, number: int) -> Damage | None:
        """The file, or its sound part, may end before all offsets that it must hold."""
        scanner, next_base = scan.scanner, self._next_base(number)
        expected = next_base if next_base is not None else self._floor
        if scanner.offset >= expected and scan.sound_end == scanner.size:
            return None
        if scanner.offset == next_base:
            await self._clear_debris(scan)
            return None
        missing = Damage(scan.segment.path(), scan.sound_end, scanner.size, scanner.offset, expected)
        if await self.is_torn(missing, number):
            return missing
        self._result.damage.append(missing)
        scan.pass_over(missing)
        return None

    async def _clear_debris(self, scan: Scan) -> None:
        """No offset is missing: these bytes are left from a failed write that was cut off, as on a full disk."""
        await self._copy_aside(scan.segment, scan.sound_end, scan.scanner.offset)
        self._shorten(scan.segment, scan.sound_end)
        scan.scanner.size = scan.sound_end

    def _note_rot(self, scan: Scan, damage: Damage) -> None:
        if damage.end_position == scan.scanner.size and damage.end_offset == damage.offset:
            return  # nothing sound behind it: `_check_end` knows how many offsets that means
        self._result.damage.append(damage)
        scan.pass_over(damage)

    # Torn or rotten

    async def is_torn(self, damage: Damage, number: int | None) -> bool:
        """Whether these bytes were never durable. They lie in the segment of this number, or before all of them."""
        if damage.offset >= self._floor:
            self._floor = max(self._floor, await self._highest_claim_behind(damage, number))
        return damage.offset >= self._floor

    async def _highest_claim_behind(self, damage: Damage, number: int | None) -> Offset:
        """The highest durable offset that any sound batch behind the damage claims.

        The damage lies in the segment of this number, or before all of them.
        """
        claim = 0
        if number is not None:
            claim = await self._highest_claim(self._bases[number], damage.end_position, damage.end_offset)
        for base in self._bases[0 if number is None else number + 1 :]:
            claim = max(claim, await self._highest_claim(base, 0, base))
        return claim

    async def _highest_claim(self, base: Offset, position: int, offset: Offset) -> Offset:
        claim = 0
        with self._volume.reader(self._segment(base).path()) as file:
            scanner = Scanner(file, position=position, offset=offset, size=file.size())
            while items := await scanner.next():
                for item in items:
                    if isinstance(item, FoundBatch):
                        claim = max(claim, item.envelope.durable_offset)
        return claim

    async def _cut(self, segment: Segment, damage: Damage, number: int) -> None:
        """Copy the bytes behind the cut aside, durably, then cut, from the end backwards."""
        await self._set_aside(self._bases[number + 1 :])
        await self._copy_aside(segment, damage.position, damage.offset)
        self._shorten(segment, damage.position)

    def _shorten(self, segment: Segment, size: int) -> None:
        """Synced before anything is written there: else a power cut may bring the old bytes back."""
        segment.unsynced_cut = True
        file = self._disk.open(segment.path())
        try:
            file.truncate(size)
        finally:
            file.close()

    async def _set_aside(self, bases: list[Offset]) -> None:
        for base in reversed(bases):
            segment = self._segment(base)
            await self._copy_aside(segment, 0, base)
            segment.remove_files()

    async def _copy_aside(self, segment: Segment, position: int, offset: Offset) -> None:
        size = self._disk.size(segment.path()) - position
        if size > 0:
            name = self._unused_name(f"{segment_stem(segment.base_offset)}.{position}")
            await self._volume.copy(segment.path(), position, self._directory, name)
            self._result.torn.append(TornTail(segment.path(), offset, size, f"{self._directory}/{name}"))

    def _unused_name(self, stem: str) -> str:
        number = 1
        while self._disk.exists(f"{self._directory}/{stem}-{number}{TORN}"):
            number += 1
        return f"{stem}-{number}{TORN}"

    # The end

    def _finish_segment(self, scan: Scan, number: int) -> None:
        next_base = self._next_base(number)
        if next_base is not None:
            scan.segment.summary.end_offset = next_base
        scan.segment.grow_from(scan.index)
        inline_max = self._volume.producers.limits.inline_max
        self._result.unsealed.append((scan.segment, scan.history.sealed(inline_max)))
        self._result.history = scan.history.of_log()

    async def _finish(self) -> None:
        result = self._result
        end = result.segments[-1].end_offset if result.segments else result.log_start
        result.end_offset = max(end, self._floor, result.log_start)
        if end < result.end_offset:
            result.damage.append(Damage(self._directory, 0, 0, end, result.end_offset))
        times = [segment.summary.last_append_time for segment in result.segments]
        result.append_time = max([self._point.append_time if self._point else 0, *times])
        if result.history.epochs:
            result.leader_epoch = max(result.leader_epoch, result.history.epochs[-1][0])
        result.as_left = self._is_as_left(result)
        if result.history.producers is None:
            base = await read_producers(self._volume, self._directory)
            found = await replayed_producers(result.segments, base or await self._producers_elsewhere())
            found.states.cut(result.end_offset)
            result.history.producers, result.producers_from = found.states, found.replay_from

    async def _producers_elsewhere(self) -> FoundProducers:
        """Without their file: the newest states that the recovery point or a seal holds itself."""
        head = self._point.growing_head() if self._point else None
        history = self._point.growing_history(head) if self._point and head else None
        if self._point is not None and history is not None and history.producers is not None:
            return FoundProducers(self._point.offset, history.producers)
        for segment in reversed(self._result.segments):
            history = await read_history(self._volume, segment.path(SEAL)) if segment.sealed else None
            if history is not None and history.producers is not None:
                return FoundProducers(segment.end_offset, history.producers)
        return FoundProducers(0, ProducerStates(self._volume.producers.limits.partition_max))

    def _is_as_left(self, result: Recovered) -> bool:
        head = self._point.growing_head() if self._point else None
        if self._point is None or head is None or result.growing is None:
            return False
        goes_on = result.growing.base_offset == head.summary.base_offset
        return goes_on and self._point.offset == result.end_offset and not (result.torn or result.damage)
