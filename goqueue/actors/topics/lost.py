"""Lost partitions, which the list of topics has and the disk lacks, and how one of them is restored."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from uuid import UUID

import msgpack

from goqueue.actors.partition.unavailable import lost
from goqueue.actors.topics.requests import RestorationView, RestorePartition
from goqueue.core.groups.registry import GroupRegistry
from goqueue.core.topics.loss import restart_of
from goqueue.core.topics.metadata import KnownTopic
from goqueue.errors import PartitionLost, UnknownFormat
from goqueue.storage.directory.folders import TopicFolders
from goqueue.storage.directory.namedoffsets import CommittedOffsets, NamedOffset
from goqueue.storage.journals.groups import GROUPS
from goqueue.storage.log.volume import Volume
from goqueue.types import Offset

OFFSET_START = "offset:"


class LostPartitions:
    def __init__(self, volume: Volume, data: str, folders: TopicFolders, report: Callable[[str], None]) -> None:
        self._volume = volume
        self._data = data
        self._folders = folders
        self._report = report
        self._lost: dict[tuple[UUID, int], PartitionLost] = {}
        self._committed = CommittedOffsets(volume, data)

    def __len__(self) -> int:
        return len(self._lost)

    def __iter__(self) -> Iterator[tuple[UUID, int]]:
        return iter(self._lost)

    def __contains__(self, place: object) -> bool:
        return place in self._lost

    def find(self, topic: KnownTopic, number: int) -> PartitionLost | None:
        return self._lost.get((topic.uuid, number))

    async def look_at(self, topic: KnownTopic, number: int) -> None:
        """Before the partition is opened for the first time. One that was never created is not lost."""
        missing = await self._folders.loss_of(topic, number, self._committed)
        if missing is not None:
            self._note(topic, number, missing)

    def look_again(self, topic: KnownTopic, number: int) -> PartitionLost | None:
        """Before the partition is opened again: its folder may have been removed while the broker ran."""
        if self.find(topic, number) is None and not self._volume.disk.exists(
            self._folders.partition(topic, number)
        ):
            self._note(topic, number, "its folder is gone")
        return self.find(topic, number)

    def _note(self, topic: KnownTopic, number: int, missing: str) -> None:
        loss = lost(topic, number, self._folders.partition(topic, number), missing)
        self._lost[topic.uuid, number] = loss
        self._report(loss.message)

    def forget(self, topic: KnownTopic, number: int) -> None:
        self._lost.pop((topic.uuid, number), None)

    # Restoring

    async def plan(self, topic: KnownTopic, asked: RestorePartition) -> RestorationView:
        """What is lost, and the offset at which the partition would restart."""
        loss = self.find(topic, asked.partition)
        if loss is None:
            return RestorationView(topic.name, asked.partition, False, False, "", None, "", 0)
        highest = await self._highest(topic, asked)
        start = restart_of(highest.offset if highest is not None else 0)
        return RestorationView(
            topic.name,
            asked.partition,
            was_lost=True,
            is_restored=False,
            missing=str(loss.details["missing"]),
            highest=highest.offset if highest is not None else None,
            named_by=highest.by if highest is not None else "",
            start=start,
        )

    async def restore(self, topic: KnownTopic, number: int, start: Offset) -> None:
        """Restart the partition, empty, at this offset; it is no longer lost."""
        aside = await self._folders.begin_again(topic, number, start)
        self.forget(topic, number)
        kept = f"; what was left of it is in {aside}" if aside is not None else ""
        self._report(f"lost partition {number} of topic {topic.name} was restarted at offset {start}{kept}")

    async def _highest(self, topic: KnownTopic, asked: RestorePartition) -> NamedOffset | None:
        committed = await CommittedOffsets(self._volume, self._data).highest(topic, asked.partition)
        point = await self._folders.point_of(topic, asked.partition)
        named = [committed, point, *self._told_starts(topic, asked.partition)]
        if asked.at_least:
            named.append(NamedOffset(asked.at_least, asked.known_by or "whoever asked"))
        return max((each for each in named if each is not None), key=lambda each: each.offset, default=None)

    def _told_starts(self, topic: KnownTopic, number: int) -> list[NamedOffset]:
        """The offsets at which groups were told to begin: an operator may have taken one from a message."""
        packed, registry = self._volume.journals.snapshot(GROUPS), GroupRegistry()
        with suppress(UnknownFormat):
            registry.apply(msgpack.unpackb(packed) if packed is not None else registry.snapshot())
        seen = [(group.name, group.topics[topic.name]) for group in registry if topic.name in group.topics]
        starts = [(name, each.start_of(number)) for name, each in seen if each.uuid == topic.uuid]
        return [
            NamedOffset(int(start.removeprefix(OFFSET_START)), f"the start of group {name}")
            for name, start in starts
            if start.startswith(OFFSET_START)
        ]
