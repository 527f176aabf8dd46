"""A program with workers, for tests that send it signals. It is told as JSON what it shall be.

Each worker is a group of its own and has one message. Its handler says `begun`, and returns when a byte is there
for it. At the end the program says what they have done, which signals its own handler heard, and whether signals do
what they did before.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import trio

import goqueue
from goqueue import aio, blocking

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass
class Told:
    surface: str
    url: str
    workers: int = 1
    handles: bool | None = None
    """None: what is usual."""
    has_own_handler: bool = False

    def arguments(self) -> list[str]:
        return [sys.executable, "-m", "tests.surfaces.workerprogram", json.dumps(asdict(self))]

    def worker(self, surface: Any, handler: Any, number: int) -> Any:
        options = {} if self.handles is None else {"handle_signals": self.handles}
        return surface.Worker("orders", f"billing-{number}", handler, url=self.url, **options)


def wait_for_a_byte() -> None:
    print("begun\n", end="", flush=True)
    os.read(sys.stdin.fileno(), 1)  # not by its buffer, which threads cannot share


def in_threads(told: Told) -> list[goqueue.Worked]:
    """One in the main thread, the others in their own."""
    worked: list[goqueue.Worked] = []

    def run(number: int) -> None:
        worked.append(told.worker(blocking, lambda _: wait_for_a_byte(), number).run())

    others = [threading.Thread(target=run, args=[number]) for number in range(1, told.workers)]
    for other in others:
        other.start()
    run(0)
    for other in others:
        other.join()
    return worked


async def on_asyncio(told: Told) -> list[goqueue.Worked]:
    async def handle(message: aio.DeliveredMessage) -> None:
        await asyncio.to_thread(wait_for_a_byte)

    async def run(number: int) -> goqueue.Worked:
        worked: goqueue.Worked = await told.worker(aio, handle, number).run()
        return worked

    return await asyncio.gather(*map(run, range(told.workers)))


async def on_trio(told: Told) -> list[goqueue.Worked]:
    worked: list[goqueue.Worked] = []

    async def handle(message: goqueue.DeliveredMessage) -> None:
        await trio.to_thread.run_sync(wait_for_a_byte)

    async def run(number: int) -> None:
        worked.append(await told.worker(goqueue, handle, number).run())

    async with trio.open_nursery() as nursery:
        for number in range(told.workers):
            nursery.start_soon(run, number)
    return worked


def main(told: Told) -> None:
    heard: list[int] = []
    if told.has_own_handler:
        for number in SIGNALS:
            signal.signal(number, lambda number, _: heard.append(number))
    before = [signal.getsignal(number) for number in SIGNALS]
    surfaces: dict[str, Callable[[], list[goqueue.Worked]]] = {
        "trio": partial(trio.run, on_trio, told),
        "asyncio": lambda: asyncio.run(on_asyncio(told)),
        "threads": partial(in_threads, told),
    }
    worked = surfaces[told.surface]()
    is_as_before = [signal.getsignal(number) for number in SIGNALS] == before
    print(json.dumps([worked, heard, is_as_before]))


if __name__ == "__main__":
    main(Told(**json.loads(sys.argv[1])))
