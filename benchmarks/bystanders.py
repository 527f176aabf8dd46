"""Others at the same broker, in a process of their own: so what they cost the producer is the broker's doing.

    python -m benchmarks.bystanders idle|greedy|reading URL COUNT TOPIC

So many connections that do nothing; or that ask for all they may and never take an answer; or that read as fast
as they can. Says `ready` once they do so, and goes on until it is ended.
"""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import trio

import goqueue
from goqueue.net.wire import messages as wire

FETCH_BYTES = 512 * 1024
SENT_SECONDS = 0.5


@contextmanager
def bystanders(kind: str, url: str, count: int, topic: str = "") -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "benchmarks.bystanders", kind, url, str(count), topic]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n", f"the {kind} ones did not get ready"
        yield process
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()


@asynccontextmanager
async def connected(url: str, count: int) -> AsyncIterator[list[goqueue.Client]]:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(goqueue.connect(url)) for _ in range(count)]
        for client in clients:
            await client.stats()
        yield clients


async def stay_idle(url: str, count: int, _topic: str) -> None:
    async with connected(url, count):
        print("ready", flush=True)
        await trio.sleep_forever()


async def ask_and_never_take(url: str, count: int, topic: str) -> None:
    async with connected(url, count) as clients:
        uuid = (await clients[0].topic(topic)).uuid.bytes
        for client in clients:
            assert client.link is not None
            offset = 0
            while client.link.ask_ahead(_fetch(uuid, offset)) is not None:
                offset += 1
        with trio.move_on_after(SENT_SECONDS):
            await trio.sleep_forever()
        print("ready", flush=True)
        signal.pause()  # not a Trio sleep: nothing takes an answer from a socket any more


def _fetch(uuid: bytes, offset: int) -> wire.Fetch:
    return wire.Fetch(0, FETCH_BYTES, (wire.FetchPartition(uuid, 0, 0, offset),))


async def read_and_read(url: str, count: int, topic: str) -> None:
    async def over_and_over(client: goqueue.Client) -> None:
        while True:
            async for _ in client.read(topic, end="latest"):
                pass

    async with connected(url, count) as clients, trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(over_and_over, client)
        await trio.sleep(SENT_SECONDS)
        print("ready", flush=True)


KINDS = {"idle": stay_idle, "greedy": ask_and_never_take, "reading": read_and_read}

if __name__ == "__main__":
    trio.run(KINDS[sys.argv[1]], sys.argv[2], int(sys.argv[3]), sys.argv[4])
