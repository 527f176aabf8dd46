"""Processes that a test starts, listens to and ends, within a bounded time."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import trio

ROOT = Path(__file__).parents[2]
LIFE_SECONDS_MAX = 180
READ_SIZE = 65_536


class Child:
    """A process that speaks in lines."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdout is not None
        self.process = process
        self.lines: list[str] = []
        """Everything it has said so far, whole lines only."""
        self._output = process.stdout
        self._rest = b""

    async def listen(self, lines: int | None = None) -> None:
        """Until it has said so many lines, or for ever: until its output ends."""
        while lines is None or len(self.lines) < lines:
            heard = await self._output.receive_some(READ_SIZE)
            if not heard:
                assert lines is None, f"it ended after {self.lines}"
                return
            *whole, self._rest = (self._rest + heard).split(b"\n")
            self.lines += [line.decode() for line in whole]

    async def end(self) -> int:
        """Hear its last words; its exit code."""
        await self.listen()
        return await self.process.wait()

    async def forget(self) -> None:
        await self._output.aclose()


@asynccontextmanager
async def child(module: str, *arguments: str, log: Path | None = None) -> AsyncIterator[Child]:
    """A Python process, which is gone when the block ends, however it ends. Its stderr goes to `log`, if given."""
    with nullcontext() if log is None else log.open("ab") as stderr:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT
        )
    started = Child(process)
    try:
        with trio.fail_after(LIFE_SECONDS_MAX):
            yield started
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await started.forget()
