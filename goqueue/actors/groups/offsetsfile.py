"""`{data}/offsets/{group}/offsets.json`: the committed offsets of a group, for operators.

    {"group": "billing", "offsets": {"orders": {"0": 4711, "1": 4690}}, "topics": {"orders": UUID}, "crc32c": "…"}

No progress is read from it: that is in the ledgers of the partitions. When a ledger was lost, an operator is told
the last offset in the file. When a partition was lost, the file says how long its log was
(storage/directory/namedoffsets.py). It is rewritten when something has changed, and at an orderly stop.

A thousand unused groups cost nothing: partitions hint at each entry that they write for a group, and without a hint
nothing is checked. After one, the boards of all its partitions are read.
"""

from collections.abc import Awaitable, Callable, Sequence

import trio

from goqueue.actors.groups.attachments import Attachment
from goqueue.core.groups.assignors import TopicPartition
from goqueue.errors import GoQueueError
from goqueue.storage.checkedjson import pack
from goqueue.storage.directory.namedoffsets import NAME, OFFSETS, offset_in, read_offsets
from goqueue.storage.log.volume import TEMPORARY, Volume
from goqueue.storage.slices import Slices

SECONDS = 5.0
END_SECONDS_MAX = 3.0
"""Less than the time limit of a stop: the file is not worth the cancellation of a group."""


class OffsetsFile:
    def __init__(
        self,
        volume: Volume,
        data: str,
        group: str,
        report: Callable[[str], None],
        attachments: Callable[[], Sequence[Attachment]],
    ) -> None:
        """The name of a group is safe as part of a path."""
        self._volume = volume
        self._group = group
        self._report = report
        self._attachments = attachments
        self._directory = f"{data}/{OFFSETS}/{group}"
        self._committed: dict[TopicPartition, int] = {}
        self._uuids: dict[str, str] = {}
        self._is_recalled = False
        self._is_written = False
        self._ending, self._ended = trio.Event(), trio.Event()

    async def keep(self, await_hint: Callable[[], Awaitable[None]]) -> None:
        """Keep the file up to date, until `end` is called."""
        while not self._ending.is_set():
            await await_hint()
            is_shown = False
            while not is_shown:
                with trio.move_on_after(SECONDS):
                    await self._ending.wait()
                is_shown = await self._is_shown() or self._ending.is_set()
        self._ended.set()

    async def end(self, hint: Callable[[], None]) -> None:
        """Write once more, if anything has changed."""
        self._ending.set()
        hint()
        with trio.move_on_after(END_SECONDS_MAX):
            await self._ended.wait()

    async def _is_shown(self) -> bool:
        """Whether the file is complete: else it is tried again."""
        try:
            await self._show(self._attachments())
        except GoQueueError as error:
            self._report(f"the offsets of group {self._group} cannot be shown: {error.message}")
            return False
        return True

    async def _show(self, attachments: Sequence[Attachment]) -> None:
        """A partition that is down keeps its offset: when it is back, it gives a hint."""
        if not self._is_recalled:
            await self._recall(attachments)
        committed, slices = dict[TopicPartition, int](), Slices()
        for attachment in attachments:
            board, before = attachment.board, self._committed.get(attachment.key)
            offset = before if board is None else board.committed(self._group)
            if offset is not None:
                committed[attachment.key] = offset
            await slices.step()
        if committed and (committed != self._committed or not self._is_written):
            self._committed, self._is_written = committed, False
            self._uuids = {
                attachment.topic.name: str(attachment.topic.uuid)
                for attachment in attachments
                if attachment.key in committed
            }
            await self._write()
            self._is_written = True

    async def _recall(self, attachments: Sequence[Attachment]) -> None:
        """Keep the file's offsets of partitions that do not answer: for a lost one it says how long its log was."""
        fields = await read_offsets(self._volume, f"{self._directory}/{NAME}")
        for attachment in attachments:
            offset = offset_in(fields, attachment.topic.name, attachment.topic.uuid, attachment.number)
            if offset is not None:
                self._committed.setdefault(attachment.key, offset)
        self._is_recalled = True

    async def _write(self) -> None:
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), committed in sorted(self._committed.items()):
            offsets.setdefault(topic, {})[str(partition)] = committed
        await self._volume.make_directories(self._directory)
        contents = pack({"group": self._group, "offsets": offsets, "topics": self._uuids}, indent=2)
        await self._volume.replace(self._directory, NAME, [contents])


def remove_offsets(volume: Volume, data: str, group: str) -> None:
    """The group is deleted. Other files in its folder stay."""
    folder = f"{data}/{OFFSETS}/{group}"
    for name in (NAME, NAME + TEMPORARY):
        if volume.disk.exists(f"{folder}/{name}"):
            volume.disk.remove(f"{folder}/{name}")
    if volume.disk.is_directory(folder) and not volume.disk.list(folder):
        volume.disk.remove_directory(folder)
        volume.forget_folders(folder)
