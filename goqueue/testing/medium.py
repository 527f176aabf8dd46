"""The medium that all open files of a simulated disk share: its room, its faults, its counts."""

from random import Random

import trio

from goqueue.errors import DiskFull
from goqueue.testing.contents import FileContents, Operation
from goqueue.testing.faults import Counts, Faults


class Medium:
    def __init__(self, random: Random, faults: Faults, capacity: int) -> None:
        self.random = random
        self.faults = faults
        self.capacity = capacity
        self.used = 0
        self.counts = Counts()
        self._syncs_to_fail: list[str | None] = []

    @property
    def free(self) -> int:
        return max(0, self.capacity - self.used)

    def check_room_for_name(self, path: str) -> None:
        if not self.free:
            raise DiskFull(f"no room to create {path}", path=path)

    def part_that_fits(self, file: FileContents, position: int, data: bytes) -> bytes:
        """All of the data, or on a full disk a part that fits. Overwriting needs no room."""
        end_max = len(file.view) + self.free
        if position + len(data) <= end_max:
            return data
        return data[: self.random.randint(0, max(0, end_max - position))]

    def perform(self, file: FileContents, operation: Operation) -> None:
        size_before = len(file.view)
        file.perform(operation)
        self.used += len(file.view) - size_before

    def cut(self, file: FileContents, size: int) -> None:
        self.used -= max(0, len(file.view) - size)
        file.cut(size)

    def unlink(self, file: FileContents) -> None:
        file.linked = False
        self._free_if_unused(file)

    def close(self, file: FileContents) -> None:
        file.handles -= 1
        self._free_if_unused(file)

    def fail_next_sync(self, path: str | None) -> None:
        self._syncs_to_fail.append(path)

    async def wait_for_sync(self, path: str) -> bool:
        """Wait as long as the platter takes. Returns whether it succeeded."""
        seconds = self.random.uniform(*self.faults.sync_seconds)
        fails = self.random.random() < self.faults.sync_failure_odds or self._is_to_fail(path)
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)
        return not fails

    async def wait_for_read(self) -> None:
        if self.random.random() < self.faults.cold_read_odds:
            await trio.sleep(self.random.uniform(*self.faults.cold_read_seconds))

    def _is_to_fail(self, path: str) -> bool:
        for armed in (path, None):
            if armed in self._syncs_to_fail:
                self._syncs_to_fail.remove(armed)
                return True
        return False

    def _free_if_unused(self, file: FileContents) -> None:
        if not file.linked and not file.handles:
            self.used -= len(file.view)
