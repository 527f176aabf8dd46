"""`{data}/offsets/{group}/offsets.json`: the committed offsets of a group, for people.

    {"group": "billing", "offsets": {"orders": {"0": 4711, "1": 4690}}, "crc32c": "…"}

Nobody reads it back: progress belongs to the partitions. It is rewritten when something has changed, and a
partition that has done nothing since it was last asked is not asked again.
"""

from collections.abc import Callable, Sequence

import trio

from goqueue.actors.groupattachments import Attachment
from goqueue.actors.groupdescription import ask_each
from goqueue.actors.grouprequests import FindCommitted
from goqueue.core.assignors import TopicPartition
from goqueue.errors import GoQueueError
from goqueue.storage.checkedjson import pack
from goqueue.storage.volume import TEMPORARY, Volume

OFFSETS, NAME = "offsets", "offsets.json"
SECONDS, IDLE_ROUNDS = 5.0, 12


class OffsetsFile:
    def __init__(self, volume: Volume, data: str, group: str, report: Callable[[str], None]) -> None:
        """The name of a group is safe as a part of a path."""
        self._volume = volume
        self._group = group
        self._report = report
        self._directory = f"{data}/{OFFSETS}/{group}"
        self._committed: dict[TopicPartition, int] = {}
        self._work: dict[TopicPartition, int] = {}
        """How much each partition had done when it was asked last."""
        self._is_written = False

    async def keep(self, places: Callable[[], Sequence[Attachment]], is_idle: Callable[[], bool]) -> None:
        """Up to date. Without members hardly anything moves, so it is looked at less often."""
        rounds = 0
        while True:
            await trio.sleep(SECONDS)
            rounds += 1
            if is_idle() and rounds % IDLE_ROUNDS:
                continue
            try:
                await self.show(places())
            except GoQueueError as error:
                self._report(f"the offsets of group {self._group} cannot be shown: {error.message}")

    async def show(self, places: Sequence[Attachment]) -> None:
        moved = [place for place in places if self._may_have_moved(place)]
        found = await ask_each(moved, FindCommitted(self._group))
        self._work |= {place.key: place.ref.handled for place in places if place.ref is not None}
        committed = {place.key: self._committed[place.key] for place in places if place.key in self._committed}
        committed |= {key: offset for key, offset in found.items() if isinstance(offset, int)}
        if committed and (committed != self._committed or not self._is_written):
            self._committed, self._is_written = committed, False
            await self._write()
            self._is_written = True

    def _may_have_moved(self, place: Attachment) -> bool:
        return place.ref is not None and place.ref.handled != self._work.get(place.key)

    async def _write(self) -> None:
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), committed in sorted(self._committed.items()):
            offsets.setdefault(topic, {})[str(partition)] = committed
        await self._volume.make_directories(self._directory)
        contents = pack({"group": self._group, "offsets": offsets}, indent=2)
        await self._volume.replace(self._directory, NAME, [contents])


def remove_offsets(volume: Volume, data: str, group: str) -> None:
    """The group is gone. What else lies in its folder stays."""
    folder = f"{data}/{OFFSETS}/{group}"
    for name in (NAME, NAME + TEMPORARY):
        if volume.disk.exists(f"{folder}/{name}"):
            volume.disk.remove(f"{folder}/{name}")
    if volume.disk.is_directory(folder) and not volume.disk.list(folder):
        volume.disk.remove_directory(folder)
        volume.forget_folders(folder)
