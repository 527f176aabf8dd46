"""HTTP with real processes: a broker that is killed beside publishers and members, and clients that do not read."""

import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import h11
import trio

import goqueue
from tests.http.world import Answered, HttpClient
from tests.process.brokers import HOST, serve_process
from tests.process.histories import TOPIC

PARTITIONS, PUBLISHERS, MEMBERS = 2, 2, 2
SECONDS_MAX = 60.0
SHUTDOWN_SECONDS_MAX = 20.0
RETRY_SECONDS = 0.05
ACKED_MAX = 60
"""So many messages are acked between two kills, at most."""
LOST = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError)


class Caller:
    """Connects again when the connection is lost, and repeats what was not answered or may be repeated."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._client: HttpClient | None = None

    async def ask(
        self, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        while True:
            try:
                answer = await (await self._connected()).ask(method, target, body, headers)
            except LOST:
                await self.close()
            else:
                if answer.headers.get("connection") == "close":
                    await self.close()
                if answer.status < 500 and answer.status != 429:
                    return answer
            await trio.sleep(RETRY_SECONDS)

    async def _connected(self) -> HttpClient:
        if self._client is None:
            self._client = HttpClient(await trio.open_tcp_stream(HOST, self._port))
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await trio.aclose_forcefully(client.stream)


@asynccontextmanager
async def caller_to(port: int) -> AsyncIterator[Caller]:
    caller = Caller(port)
    try:
        yield caller
    finally:
        with trio.CancelScope(shield=True):
            await caller.close()


@dataclass
class Books:
    confirmed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where each value lies."""
    acked: Counter[str] = field(default_factory=Counter)
    publishers: int = 0
    """Those that have not come to an end."""
    _more: trio.Event = field(default_factory=trio.Event)

    def note_acked(self, values: list[str]) -> None:
        self.acked.update(values)
        self._more.set()

    async def wait_for(self, more: int) -> None:
        """Until so many more are acked."""
        wanted = self.acked.total() + more
        while self.acked.total() < wanted:
            await self.wait_for_news()

    async def wait_for_news(self) -> None:
        self._more = trio.Event()
        await self._more.wait()


async def publish_on(stopping: trio.Event, port: int, name: str, books: Books) -> None:
    """A request is repeated under its key until it is answered."""
    number = 0
    books.publishers += 1
    async with caller_to(port) as caller:
        while not stopping.is_set():
            values = [f"{name} {number} {each}" for each in range(5)]
            body = {"messages": [{"value": value, "key": value} for value in values]}
            headers = {"idempotency-key": f"{name}.{number}"}
            answer = await caller.ask("POST", f"/topics/{TOPIC}/messages", body, headers)
            assert answer.status == 200, answer.body
            for value, result in zip(values, answer.json()["results"], strict=True):
                books.confirmed[value] = (result["partition"], result["offset"])
            number += 1
    books.publishers -= 1
    books.note_acked([])


async def consume_on(port: int, member: str, books: Books) -> None:
    is_member = False
    async with caller_to(port) as caller:
        while True:
            if not is_member:
                joined = await caller.ask("POST", "/groups/g/join", {"topics": [TOPIC], "member_id": member})
                is_member = joined.status == 200
            target = f"/groups/g/poll?member_id={member}&timeout=2&visibility=2&limit=20"
            polled = await caller.ask("GET", target)
            is_member = polled.status != 404
            messages = {each["receipt"]: each["value"] for each in polled.json().get("messages", [])}
            if messages:
                settled = await caller.ask("POST", "/messages/ack", {"receipts": list(messages)})
                stale = settled.json()["stale"]
                books.note_acked([value for receipt, value in messages.items() if receipt not in stale])


async def test_a_broker_that_is_killed_loses_and_doubles_nothing_of_its_http_clients(
    tmp_path: Path, kills: int
) -> None:
    """G1, G5, G6, G11: publishers repeat under their key, members join again under their id."""
    random, books, stopping = Random(0), Books(), trio.Event()
    with trio.fail_after(SECONDS_MAX + 10 * kills):
        url, websocket, http = await set_up(tmp_path)
        async with trio.open_nursery() as clients:
            for number in range(MEMBERS):
                clients.start_soon(consume_on, http, f"m{number}", books)
            for number in range(PUBLISHERS):
                clients.start_soon(publish_on, stopping, http, f"p{number}", books)
            for _ in range(max(1, kills // 3)):
                async with serve_process(tmp_path, websocket, http) as (process, _):
                    await books.wait_for(random.randint(1, ACKED_MAX))
                    process.process.kill()
                    assert await process.end() == -9
            async with serve_process(tmp_path, websocket, http), goqueue.connect(url) as client:
                await books.wait_for(ACKED_MAX)
                stopping.set()
                while books.publishers or books.confirmed.keys() - books.acked.keys():
                    await books.wait_for_news()
                await check(client, books)
                clients.cancel_scope.cancel()


async def set_up(data: Path) -> tuple[str, int, int]:
    """Make the topic; where the broker listens from now on."""
    async with serve_process(data) as (process, ports), goqueue.connect(ports["websocket"]) as client:
        await client.create_topic(TOPIC, partitions=PARTITIONS)
        process.process.terminate()
        assert await process.end() == 0
    websocket, http = (urlsplit(ports[name]).port or 0 for name in ("websocket", "http"))
    return ports["websocket"], websocket, http


async def check(client: goqueue.Client, books: Books) -> None:
    messages = [message async for message in client.read(TOPIC, end="latest")]
    places = {message.value.decode(): (message.partition, message.offset) for message in messages}
    assert len(places) == len(messages), "something is there twice"
    assert {value: places.get(value) for value in books.confirmed} == books.confirmed
    assert max(books.acked.values()) == 1, "an acked message came again"


async def test_a_broker_stops_while_a_client_does_not_read_and_while_polls_are_open(tmp_path: Path) -> None:
    """G15: the polls are answered, and who does not read is cut off."""
    with trio.fail_after(SECONDS_MAX):
        async with serve_process(tmp_path) as (process, ports), goqueue.connect(ports["websocket"]) as client:
            await client.create_topic(TOPIC, partitions=1)
            for _ in range(16):
                await client.publish(TOPIC, b"x" * 1_000_000)
            port = urlsplit(ports["http"]).port or 0
            deaf = await trio.open_tcp_stream(HOST, port)
            deaf.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4_096)
            target = f"/topics/{TOPIC}/messages?max_bytes=16000000"
            await deaf.send_all(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            await deaf.receive_some(1)
            answers = list[Answered]()
            async with trio.open_nursery() as polls:
                for number in range(3):
                    polls.start_soon(poll_until_answered, port, f"m{number}", answers)
                while len(await client.groups()) < 3:  # noqa: ASYNC110 they are told over other connections
                    await trio.sleep(0.01)
                await trio.sleep(0.2)
                process.process.send_signal(signal.SIGTERM)
                began = trio.current_time()
                assert await process.end() == 0
            assert trio.current_time() - began < SHUTDOWN_SECONDS_MAX
            await deaf.aclose()
    assert [(each.status, each.json()["messages"], each.headers["connection"]) for each in answers] == [
        (200, [], "close")
    ] * 3


async def poll_until_answered(port: int, group: str, answers: list[Answered]) -> None:
    stream = await trio.open_tcp_stream(HOST, port)
    async with stream:
        client, body = HttpClient(stream), {"topics": [TOPIC], "member_id": "m", "start": "latest"}
        assert (await client.ask("POST", f"/groups/{group}/join", body)).status == 200
        answers.append(await client.ask("GET", f"/groups/{group}/poll?member_id=m&timeout=60"))
