"""The consumers' processes, as whoever runs them sees them: started, told, killed by their pid."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from benchmarks.peers.workload import Wrong
from benchmarks.rebalance.receipts import Receipt, receipts_in

ANSWER_SECONDS_MAX = 30.0
READ_SIZE = 4_096
ROOT = Path(__file__).parents[2]


class Member:
    def __init__(self, seat: int, process: trio.Process, notes: Path) -> None:
        self.seat = seat
        self._process = process
        self._notes = notes

    async def ready(self) -> None:
        await self._hear("ready")

    async def join(self, **options: Any) -> None:
        """As `client.consumer` takes them."""
        await self._tell(json.dumps(options))
        await self._hear("joined")

    async def leave(self) -> None:
        await self._tell("leave")
        await self._hear("left")

    def kill(self) -> None:
        """SIGKILL: it has no last words."""
        self._process.kill()

    async def end(self) -> None:
        self._process.kill()
        await self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            await stream.aclose()

    def receipts(self) -> Iterator[Receipt]:
        return receipts_in(self._notes, self.seat)

    async def _tell(self, order: str) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send_all(f"{order}\n".encode())

    async def _hear(self, word: str) -> None:
        """It speaks when it is spoken to, one word at a time."""
        heard = b""
        with trio.move_on_after(ANSWER_SECONDS_MAX):
            while not heard.endswith(b"\n") and (more := await self._listen()):
                heard += more
        if heard != f"{word}\n".encode():
            raise Wrong(f"consumer {self.seat} was to say {word!r}, and said {heard.decode()!r}")

    async def _listen(self) -> bytes:
        assert self._process.stdout is not None
        return bytes(await self._process.stdout.receive_some(READ_SIZE))


@dataclass(slots=True)
class Crew:
    url: str
    folder: Path
    members: list[Member] = field(default_factory=list)

    async def start(self, seat: int) -> Member:
        """One that has loaded everything and waits: what is measured is the group, not Python's start."""
        notes = self.folder / f"receipts-{len(self.members)}"
        command = [sys.executable, "-m", "benchmarks.rebalance.member", self.url, str(notes)]
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
        self.members.append(Member(seat, process, notes))
        return self.members[-1]

    def receipts(self) -> list[Receipt]:
        return sorted(each for member in self.members for each in member.receipts())


@asynccontextmanager
async def crew(url: str, folder: Path) -> AsyncIterator[Crew]:
    """All of them are gone when the block ends, however it ends."""
    started = Crew(url, folder)
    try:
        yield started
    finally:
        with trio.CancelScope(shield=True):
            for member in started.members:
                await member.end()
