"""The client for Trio: `async with goqueue.connect("ws://127.0.0.1:7710") as client`.

One connection serves everything that a client does. When it is lost the client connects again by itself, 50 ms
after the loss, then twice as long each time, up to 2 s; a call that was under way is asked again. What cannot
be done within 30 s fails with `Unavailable`. Errors come as themselves, never in a group.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import trio

from goqueue.core.names import check_publishable, check_topic_name
from goqueue.environment import Network, SystemClock, TcpNetwork, WallClock
from goqueue.errors import Closed, GoQueueError, Unavailable, UnknownPartition, UnknownTopic
from goqueue.net import messages as wire
from goqueue.net.content import acks_of, check_content, priority_of
from goqueue.net.errors import ConnectionLost, GoingAway
from goqueue.net.link import Link, Pending
from goqueue.net.message import Published
from goqueue.net.producer import Producer
from goqueue.net.publishing import Publishing
from goqueue.net.reader import Reader, Start
from goqueue.net.websocket import connect_websocket
from goqueue.nursery import PlainNursery
from goqueue.types import Acks, Offset, Priority

logger = logging.getLogger("goqueue.client")

RECONNECT_SECONDS_MIN, RECONNECT_SECONDS_MAX = 0.05, 2.0
CALL_SECONDS_MAX = 30.0
DEFAULT_PORT = 7710

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Partition:
    number: int
    start: Offset
    """The first offset still there."""
    end: Offset
    """The offset that the next message will get."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    uuid: UUID
    config: Mapping[str, Any]
    partitions: list[Partition]


class Client:
    """Made by `connect`."""

    def __init__(self, host: str, port: int, name: str, network: Network, clock: WallClock) -> None:
        self._host, self._port = host, port
        self._name = name
        self._network = network
        self.clock = clock
        self._link: Link | None = None
        self._connected = trio.Event()
        self._is_closed = False
        self._publishing: dict[str, Publishing] = {}

    # Topics

    async def create_topic(self, name: str, partitions: int = 3, config: Mapping[str, Any] | None = None) -> Topic:
        check_topic_name(name)
        return _only(await self.call(wire.CreateTopic(name, partitions, dict(config or {})), wire.Topics))

    async def alter_topic(self, name: str, config: Mapping[str, Any]) -> Topic:
        check_publishable(name)
        return _only(await self.call(wire.AlterTopic(name, dict(config)), wire.Topics))

    async def add_partitions(self, name: str, partitions: int) -> Topic:
        """`partitions` is how many there shall be."""
        check_publishable(name)
        topic = _only(await self.call(wire.AddPartitions(name, partitions), wire.Topics))
        self._note_partitions(topic)
        return topic

    async def delete_topic(self, name: str) -> None:
        check_publishable(name)
        await self.call(wire.DeleteTopic(name), wire.Done)
        self._publishing.pop(name, None)

    async def topics(self) -> list[Topic]:
        return [_topic(each) for each in (await self.call(wire.DescribeTopics(None), wire.Topics)).topics]

    async def topic(self, name: str) -> Topic:
        check_topic_name(name, by_broker=True)
        return _only(await self.call(wire.DescribeTopics((name,)), wire.Topics))

    async def purge(self, name: str) -> None:
        check_publishable(name)
        await self.call(wire.Purge(name), wire.Done)

    async def delete_before(self, topic: str, partition: int, offset: Offset) -> None:
        check_publishable(topic)
        await self.call(wire.DeleteBefore(topic, partition, offset), wire.Done)

    async def stats(self) -> Mapping[str, Any]:
        return (await self.call(wire.Stats(), wire.StatsReport)).counters

    # Publishing

    async def publish(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        priority: Priority | int | str = Priority.NORMAL,
        partition: int | None = None,
        acks: Acks | int | str = Acks.ALL,
    ) -> Published:
        """Publish one message and wait until it is confirmed. Repeated after a lost answer, it is there once."""
        self._check_open()
        check_content(value, key, headers)
        check_publishable(topic)
        rank, waited_for = priority_of(priority), acks_of(acks)

        async def attempt() -> Published:
            publishing = await self._publishing_to(topic)
            return await publishing.publish(
                value, key=key, headers=headers, priority=rank, partition=partition, acks=waited_for
            )

        try:
            return await attempt()
        except UnknownTopic:
            # Perhaps it was deleted and made again since we looked.
            self._publishing.pop(topic, None)
            return await attempt()
        except UnknownPartition:
            # Perhaps it was added since we looked.
            self._note_partitions(await self.topic(topic))
            return await attempt()

    def _note_partitions(self, topic: Topic) -> None:
        publishing = self._publishing.get(topic.name)
        if publishing is not None and publishing.topic.uuid == topic.uuid:
            publishing.resize(topic)
        else:
            self._publishing.pop(topic.name, None)

    async def _publishing_to(self, topic: str) -> Publishing:
        publishing = self._publishing.get(topic)
        if publishing is None:
            found = Publishing(self, self.clock, await self.topic(topic))
            publishing = self._publishing.setdefault(topic, found)
        return publishing

    def producer(
        self,
        topic: str,
        *,
        acks: Acks | str = Acks.ALL,
        linger_ms: float = 5,
        batch_messages: int = 100,
        batch_bytes: int = 64 * 1024,
        buffer_messages: int = 100_000,
        delivery_timeout: float = 120.0,
    ) -> Producer:
        """The fast way to publish: `async with client.producer("orders") as producer`."""
        self._check_open()
        return Producer(
            self,
            topic,
            acks=acks,
            linger_ms=linger_ms,
            batch_messages=batch_messages,
            batch_bytes=batch_bytes,
            buffer_messages=buffer_messages,
            delivery_timeout=delivery_timeout,
        )

    # Reading

    def read(
        self,
        topic: str,
        *,
        partition: int | None = None,
        start: Start = "earliest",
        end: Offset | str | None = None,
    ) -> Reader:
        """The messages of a topic, without a group. Follows unless `end` is given."""
        self._check_open()
        return Reader(self, topic, partition, start, end)

    # The connection

    async def call(self, request: wire.Request, kind: type[AnswerT]) -> AnswerT:
        """Ask; again when the connection is lost or the broker says that a repeat may help."""
        self._check_open()
        deadline = trio.current_time() + CALL_SECONDS_MAX
        pause = RECONNECT_SECONDS_MIN
        while True:
            try:
                answer = await self._ask(request, deadline)
            except GoQueueError as error:
                if not (error.retryable and trio.current_time() + pause < deadline):
                    raise _final(error) from error
                await trio.sleep(pause)
                pause = min(2 * pause, RECONNECT_SECONDS_MAX)
                self._check_open()
            else:
                assert isinstance(answer, kind)
                return answer

    async def _ask(self, request: wire.Request, deadline: float) -> wire.Answer:
        with trio.CancelScope(deadline=deadline):
            while self._link is None:
                await self._connected.wait()
                self._check_open()
            return await self._link.request(request)
        raise Unavailable(f"{self._address} did not answer within {CALL_SECONDS_MAX:g} s; is the broker running?")

    async def post(self, request: wire.Request) -> Pending:
        """Ask once, in the order of the calls, as soon as there is a connection; the answer comes later."""
        self._check_open()
        while self._link is None:
            await self._connected.wait()
            self._check_open()
        return self._link.post(request)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the client is closed")

    @property
    def _address(self) -> str:
        return f"ws://{self._host}:{self._port}"

    async def keep_connected(self) -> None:
        pause = RECONNECT_SECONDS_MIN
        while True:
            try:
                await self._connect_once()
                pause = RECONNECT_SECONDS_MIN
                logger.warning("the connection to %s was lost; connecting again", self._address)
            except (OSError, GoQueueError) as error:
                logger.info("%s cannot be reached (%s); trying again in %g s", self._address, error, pause)
            await trio.sleep(pause)
            pause = min(2 * pause, RECONNECT_SECONDS_MAX)

    async def _connect_once(self) -> None:
        """Connect and serve until the connection is lost."""
        stream = await self._network.connect(self._host, self._port)
        _refuse_itself(stream)
        async with PlainNursery() as nursery:
            transport = await connect_websocket(nursery, stream, f"{self._host}:{self._port}")
            link = Link(transport)
            try:
                await link.greet(self._name)
                self._link = link
                self._connected.set()
                await link.run(self._forget_link)
            finally:
                self._forget_link()
                # Whoever hears our goodbye is cancelled with us, so it is not waited for.
                await trio.aclose_forcefully(stream)
            nursery.cancel_scope.cancel()

    def _forget_link(self) -> None:
        if self._link is not None:
            self._link = None
            self._connected = trio.Event()

    def close(self) -> None:
        self._is_closed = True
        self._link = None
        self._connected.set()


class Connecting:
    """What `connect` gives: enter it to have a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._nursery = PlainNursery()

    async def __aenter__(self) -> Client:
        tasks = await self._nursery.__aenter__()
        self._scope = tasks.cancel_scope
        tasks.start_soon(self._client.keep_connected)
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._client.close()
        self._scope.cancel()
        return await self._nursery.__aexit__(kind, error, trace)


def connect(
    url: str = "ws://127.0.0.1:7710",
    *,
    name: str = "goqueue",
    network: Network | None = None,
    clock: WallClock | None = None,
) -> Connecting:
    """A client of the broker at this address. The broker may be down: the first call waits for it.

    `network` and `clock` are the machine's own unless a test brings others.
    """
    parts = urlsplit(url)
    if parts.scheme != "ws" or not parts.hostname:
        raise ValueError(f"{url!r} is not an address like ws://127.0.0.1:7710")
    address = (parts.hostname, parts.port or DEFAULT_PORT)
    return Connecting(Client(*address, name, network or TcpNetwork(), clock or SystemClock()))


def _final(error: GoQueueError) -> GoQueueError:
    """What the caller hears when asking again is over: our own words for the wire's troubles."""
    if isinstance(error, ConnectionLost | GoingAway):
        return Unavailable(f"the broker could not be reached within {CALL_SECONDS_MAX:g} s: {error.message}")
    return error


def _refuse_itself(stream: trio.abc.Stream) -> None:
    """A socket to a free port of its own machine may connect to itself, and then hears what it says."""
    if isinstance(stream, trio.SocketStream) and stream.socket.getsockname() == stream.socket.getpeername():
        stream.socket.close()
        raise ConnectionLost("the socket had connected to itself")


def _only(answer: wire.Topics) -> Topic:
    [description] = answer.topics
    return _topic(description)


def _topic(description: wire.TopicDescription) -> Topic:
    partitions = [Partition(each.partition, each.start, each.end) for each in description.partitions]
    return Topic(description.name, UUID(bytes=description.uuid), description.config, partitions)
