"""An open file and a held lock of the simulated disk."""

from collections.abc import Sequence

from goqueue.errors import DiskFailed, DiskFull
from goqueue.testing.contents import FileContents, Truncate, Write
from goqueue.testing.medium import Medium
from goqueue.types import Buffer


class SimulatedFile:
    def __init__(self, path: str, contents: FileContents, medium: Medium, *, writable: bool) -> None:
        self.path = path
        self._contents = contents
        self._medium = medium
        self._writable = writable
        self._closed = False
        self._failures_seen = contents.failed_syncs
        contents.handles += 1

    def size(self) -> int:
        return len(self._open_contents().view)

    def write(self, position: int, buffers: Sequence[Buffer]) -> int:
        contents, data = self._writable_contents(), b"".join(buffers)
        accepted = self._medium.part_that_fits(contents, position, data)
        if accepted:
            self._medium.perform(contents, Write(position, accepted))
        self._medium.counts.writes += 1
        self._medium.counts.bytes_written += len(accepted)
        if len(accepted) < len(data):
            raise DiskFull(f"no room to write {self.path}", path=self.path)
        return len(data)

    async def read(self, position: int, length: int) -> bytes:
        contents = self._open_contents()
        await self._medium.wait_for_read()
        data = contents.read(position, length)
        self._medium.counts.reads += 1
        self._medium.counts.bytes_read += len(data)
        return data

    def truncate(self, size: int) -> None:
        self._medium.perform(self._writable_contents(), Truncate(size))

    async def sync(self) -> None:
        contents = self._open_contents()
        mark = contents.mark()
        self._medium.counts.syncs += 1
        if await self._medium.wait_for_sync(self.path):
            contents.settle(mark)
        else:
            contents.forget(mark)
        self._report_failure(contents)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._medium.close(self._contents)

    def _report_failure(self, contents: FileContents) -> None:
        """Once per open file, as Linux does: the next sync reports success."""
        if self._failures_seen < contents.failed_syncs:
            self._failures_seen = contents.failed_syncs
            raise DiskFailed(f"{self.path} could not be synced", path=self.path)

    def _open_contents(self) -> FileContents:
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        return self._contents

    def _writable_contents(self) -> FileContents:
        contents = self._open_contents()
        if not self._writable:
            raise DiskFailed(f"{self.path} is open for reading only", path=self.path)
        return contents


class SimulatedLock:
    def __init__(self, contents: FileContents) -> None:
        self._contents: FileContents | None = contents
        contents.locked = True

    def release(self) -> None:
        if self._contents is not None:
            self._contents.locked = False
            self._contents = None
