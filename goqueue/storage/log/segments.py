"""The list of a log's segments, oldest first, the last of which may grow."""

from bisect import bisect_right
from collections.abc import Callable, Iterator

from goqueue.environment import File
from goqueue.storage.log.recovery import Recovered
from goqueue.storage.log.segment import Segment
from goqueue.storage.log.summary import History
from goqueue.storage.log.volume import Volume
from goqueue.types import Offset


class Segments:
    __slots__ = (
        "_directory",
        "_masks",
        "_masks_of",
        "_segments",
        "_unsealed",
        "_volume",
        "growing",
        "name_changes",
    )

    def __init__(self, volume: Volume, directory: str, recovered: Recovered) -> None:
        self._volume = volume
        self._directory = directory
        self._segments = recovered.segments
        self._unsealed = recovered.unsealed
        self.growing = recovered.growing
        self.name_changes = 1
        """Counts creations and removals of files, after each of which the folder has to be synced."""
        self._masks: list[int] = []
        """For each segment, the lanes in it and in those behind it, without the last segment, which may grow."""
        self._masks_of = 0

    def __len__(self) -> int:
        return len(self._segments)

    def hold(self, run: list[Segment]) -> bool:
        """Whether these are in the list, as neighbours."""
        number = bisect_right(self._segments, run[0].base_offset, key=_base) - 1
        return self._segments[max(0, number) : number + len(run)] == run

    def __iter__(self) -> Iterator[Segment]:
        """A copy: the list may change while the caller waits."""
        return iter(list(self._segments))

    def holding(self, offset: Offset) -> Segment | None:
        """The segment that holds this offset; None where it is missing."""
        number = bisect_right(self._segments, offset, key=_base) - 1
        found = self._segments[number] if number >= 0 else None
        return found if found is not None and offset < found.end_offset else None

    def next_base(self, offset: Offset, end: Offset) -> Offset:
        """The base offset of the first segment behind this offset, or the end of the log."""
        number = bisect_right(self._segments, offset, key=_base)
        return self._segments[number].base_offset if number < len(self._segments) else end

    def lanes_from(self, offset: Offset) -> int:
        """The lanes with records in the segment of this offset or in those behind it, as a mask."""
        if self._masks_of != self.name_changes or len(self._masks) != len(self._segments):
            self._masks, self._masks_of = _joined_masks(self._segments), self.name_changes
        number = max(0, bisect_right(self._segments, offset, key=_base) - 1)
        grows = self._segments[-1].summary.priority_mask if self._segments else 0
        return self._masks[number] | grows if number < len(self._masks) else 0

    def walk(self, offset: Offset) -> Iterator[Segment]:
        """The segment with this offset and those behind it. The caller may wait between two: each is looked up when
        its turn comes, so segments that were merged or removed meanwhile do not appear."""
        while (segment := self._first_behind(offset)) is not None:
            yield segment
            offset = segment.end_offset

    def _first_behind(self, offset: Offset) -> Segment | None:
        number = bisect_right(self._segments, offset, key=_base)
        if number and self._segments[number - 1].end_offset > offset:
            return self._segments[number - 1]
        return next((each for each in self._segments[number : number + 2] if each.end_offset > offset), None)

    def finished(self) -> list[Segment]:
        return [segment for segment in self._segments if segment is not self.growing]

    def size(self) -> int:
        return sum(segment.summary.size for segment in self._segments)

    def roll(self, end: Offset, history: History) -> Segment:
        """Begin a new segment at `end`; the one before waits for its seal with the history up to here."""
        new = Segment.create(self._volume, self._directory, end)
        if self.growing is not None:
            inline_max = self._volume.producers.limits.inline_max
            self._unsealed.append((self.growing, history.of_log().sealed(inline_max)))
        self.growing = new
        self._segments.append(new)
        self.name_changes += 1
        return new

    def unsynced(self, durable: Offset) -> list[File]:
        """The files with records from this offset on, or with an unsynced cut."""
        return [each.writer for each in self._written() if each.end_offset > durable or each.unsynced_cut]

    def cut(self) -> list[Segment]:
        """The segments from which a failed write was cut; a power cut may bring it back."""
        return [each for each in self._written() if each.unsynced_cut]

    def _written(self) -> list[Segment]:
        unsealed = [segment for segment, _ in self._unsealed]
        return unsealed if self.growing is None else [*unsealed, self.growing]

    async def seal_finished(self, durable: Offset, may_go_on: Callable[[], bool] = lambda: True) -> None:
        while self._unsealed and self._unsealed[0][0].end_offset <= durable and may_go_on():
            segment, history = self._unsealed[0]
            await segment.seal(history)
            self._unsealed.pop(0)

    def remove(self, segments: list[Segment]) -> None:
        for segment in segments:
            self._segments.remove(segment)
            segment.remove_files()
            self.name_changes += 1
        self._unsealed = [waiting for waiting in self._unsealed if waiting[0] not in segments]

    def exchange(self, old: Segment, new: Segment) -> None:
        self._segments[self._segments.index(old)] = new
        old.close()
        self.name_changes += 1

    def merge(self, old: list[Segment], new: Segment) -> None:
        """Replace several neighbours by one segment. Their files are removed later."""
        number = self._segments.index(old[0])
        self._segments[number : number + len(old)] = [new]
        for segment in old:
            segment.close()
        self.name_changes += 1

    def close(self) -> None:
        for segment in self._segments:
            segment.close()


def _joined_masks(segments: list[Segment]) -> list[int]:
    """Without the last segment, which may grow."""
    masks = [0] * len(segments)
    for number in range(len(segments) - 2, -1, -1):
        masks[number] = masks[number + 1] | segments[number].summary.priority_mask
    return masks


def _base(segment: Segment) -> Offset:
    return segment.base_offset
