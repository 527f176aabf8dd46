"""The client for Trio: `async with goqueue.connect("ws://127.0.0.1:7710") as client`.

One connection serves everything that a client does. When it is lost the client connects again by itself, 50 ms
after the loss, then twice as long each time, up to 2 s; a call that was under way is asked again. What cannot
be done within 30 s fails with `Unavailable`. Errors come as themselves, never in a group.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import trio

from goqueue.core.names import check_group_name, check_publishable, check_topic_name
from goqueue.environment import Network, SystemClock, TcpNetwork, WallClock
from goqueue.errors import Closed, GoQueueError, Unavailable
from goqueue.net import groupmessages
from goqueue.net import messages as wire
from goqueue.net.bodies import Answer, Request
from goqueue.net.consumer import Consumer
from goqueue.net.consumeroptions import ConsumerOptions, start_text
from goqueue.net.content import acks_of
from goqueue.net.errors import ConnectionLost, GoingAway
from goqueue.net.groupviews import Group, Redriven, ResetPartition, group_of
from goqueue.net.keepalive import OF_CLIENTS, kept_alive
from goqueue.net.link import Link
from goqueue.net.message import Published
from goqueue.net.producer import Producer
from goqueue.net.publishers import Publishers
from goqueue.net.reader import Reader, Start
from goqueue.net.sender import Sender
from goqueue.net.topicviews import Partition, Topic, only_topic, topic_of
from goqueue.net.websocket import connect_websocket
from goqueue.nursery import PlainNursery
from goqueue.tcp import TcpStream
from goqueue.types import Acks, Offset, Priority

__all__ = ["Client", "Connecting", "Partition", "Topic", "address_of", "connect"]

logger = logging.getLogger("goqueue.client")

RECONNECT_SECONDS_MIN, RECONNECT_SECONDS_MAX = 0.05, 2.0
CALL_SECONDS_MAX = 30.0
DEFAULT_PORT = 7710

AnswerT = TypeVar("AnswerT")


class Client:
    """Made by `connect`."""

    def __init__(self, host: str, port: int, name: str, network: Network, clock: WallClock) -> None:
        self._host, self._port = host, port
        self.name = name
        self._network = network
        self.clock = clock
        self.link: Link | None = None
        """The connection, while there is one."""
        self._connected = trio.Event()
        self._is_closed = False
        self.senders: dict[Sender, None] = {}
        """Those who want to know when there is a connection again."""
        self._publishers = Publishers(self)
        self._tasks: trio.Nursery | None = None

    # Topics

    async def create_topic(self, name: str, partitions: int = 3, config: Mapping[str, Any] | None = None) -> Topic:
        check_topic_name(name)
        token = uuid4().bytes  # one for all repeats: a lost answer does not make the topic somebody else's
        return only_topic(
            await self.call(wire.CreateTopic(name, partitions, dict(config or {}), token), wire.Topics)
        )

    async def alter_topic(self, name: str, config: Mapping[str, Any]) -> Topic:
        check_publishable(name)
        return only_topic(await self.call(wire.AlterTopic(name, dict(config)), wire.Topics))

    async def add_partitions(self, name: str, partitions: int) -> Topic:
        """`partitions` is how many there shall be."""
        check_publishable(name)
        topic = only_topic(await self.call(wire.AddPartitions(name, partitions), wire.Topics))
        for sender in list(self.senders):
            if sender.topic.name == name:
                await sender.refresh()
        return topic

    async def delete_topic(self, name: str) -> None:
        check_publishable(name)
        uuid = (await self.topic(name)).uuid  # a late repeat must not meet one that was made again
        await self.call(wire.DeleteTopic(name, uuid.bytes), wire.Done)
        self._publishers.forget(name)

    async def topics(self) -> list[Topic]:
        return [topic_of(each) for each in (await self.call(wire.DescribeTopics(None), wire.Topics)).topics]

    async def topic(self, name: str) -> Topic:
        check_topic_name(name, by_broker=True)
        return only_topic(await self.call(wire.DescribeTopics((name,)), wire.Topics))

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
        ttl: float | None = None,
        message_id: bytes | str | None = None,
        acks: Acks | int | str = Acks.ALL,
    ) -> Published:
        """Publish one message and wait until it is confirmed. Repeated after a lost answer, it is there once."""
        self._check_open()
        check_publishable(topic)
        publisher = await self._publishers.to(topic, acks_of(acks))
        return await publisher.send(
            value,
            key=key,
            headers=headers,
            priority=priority,
            partition=partition,
            ttl=ttl,
            message_id=message_id,
        )

    def producer(
        self,
        topic: str,
        *,
        acks: Acks | int | str = Acks.ALL,
        linger_ms: float = 5,
        batch_messages: int = 100,
        batch_bytes: int = 64 * 1024,
        buffer_messages: int = 100_000,
        delivery_timeout: float = 120.0,
        idempotent: bool = True,
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
            idempotent=idempotent,
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

    def consumer(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        mode: str = "queue",
        shared: bool | None = None,
        key_order: bool | None = None,
        lanes: str | None = None,
        max_deliveries: int | None = None,
        start: Start = "earliest",
        max_in_flight: int = 4_000,
        max_in_flight_bytes: int = 16 * 1024 * 1024,
        visibility_timeout: float = 30.0,
        auto_extend: bool | None = None,
        member_id: str | None = None,
    ) -> Consumer:
        """A member of a group: `async with client.consumer("orders", group="billing") as consumer`.

        `topics` is a name, a list of names or a pattern. What the group shares and is not given is as the group
        has it, which its first member decides.
        """
        self._check_open()
        options = ConsumerOptions(
            topics=topics,
            group=group,
            mode=mode,
            shared=shared,
            key_order=key_order,
            lanes=lanes,
            max_deliveries=max_deliveries,
            start=start,
            max_in_flight=max_in_flight,
            max_in_flight_bytes=max_in_flight_bytes,
            visibility_timeout=visibility_timeout,
            auto_extend=auto_extend,
            member_id=member_id,
        )
        return Consumer(self, options)

    # Groups

    async def groups(self) -> list[Group]:
        answer = await self.call(groupmessages.DescribeGroups(None), groupmessages.Groups)
        return [group_of(each) for each in answer.groups]

    async def group(self, name: str) -> Group:
        """Its members, and for each partition how far it is."""
        return await self._one_group(groupmessages.DescribeGroups((check_group_name(name),)))

    async def alter_group(self, name: str, settings: Mapping[str, Any], *, force: bool = False) -> Group:
        """Other settings; None resets one. Of a group with members only by `force`."""
        return await self._one_group(groupmessages.AlterGroup(check_group_name(name), dict(settings), force))

    async def _one_group(self, request: groupmessages.DescribeGroups | groupmessages.AlterGroup) -> Group:
        [description] = (await self.call(request, groupmessages.Groups)).groups
        return group_of(description)

    async def reset_group(
        self,
        name: str,
        start: Start,
        *,
        topic: str | None = None,
        partition: int | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> list[ResetPartition]:
        """Let a group begin again at `start`. A dry run says what would be; one with members only by `force`."""
        request = groupmessages.ResetGroup(
            check_group_name(name), topic, partition, start_text(start), dry_run, force
        )
        answer = await self.call(request, groupmessages.GroupReset)
        return [ResetPartition(*each) for each in answer.partitions]

    async def delete_group(self, name: str) -> None:
        """A group without members, and its progress."""
        await self.call(groupmessages.DeleteGroup(check_group_name(name)), wire.Done)

    async def redrive(
        self,
        topic: str,
        *,
        group: str | None = None,
        partition: int | None = None,
        offsets: Sequence[Offset] | None = None,
        reason: str | None = None,
        to: str | None = None,
        all_groups: bool = False,
        max_messages: int | None = None,
        per_second: int | None = None,
        dry_run: bool = False,
    ) -> Redriven:
        """Send dead letters of a topic back, each once: those that fit all that is given.

        `partition` and `offsets` are those in the dead-letter topic; `reason` is a part of why they were given up.
        They go to the group that gave them up, with `all_groups` to all, or to another topic.
        """
        chosen = None if offsets is None else tuple(offsets)
        request = groupmessages.Redrive(
            topic, group, partition, chosen, reason, to, all_groups, max_messages, per_second, dry_run
        )
        return Redriven(*await self.call(request, groupmessages.Redriven))

    # The connection

    async def call(self, request: Request, kind: type[AnswerT]) -> AnswerT:
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

    async def _ask(self, request: Request, deadline: float) -> Answer:
        with trio.CancelScope(deadline=deadline):
            while self.link is None:
                await self._connected.wait()
                self._check_open()
            return await self.link.request(request)
        raise Unavailable(f"{self._address} did not answer within {CALL_SECONDS_MAX:g} s; is the broker running?")

    def spawn(self, task: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Run something beside the program, as long as the client is open."""
        assert self._tasks is not None, "a client has tasks from its opening on"
        self._tasks.start_soon(task, *arguments)

    def open(self, tasks: trio.Nursery) -> None:
        self._tasks = tasks
        self.spawn(self._keep_connected)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the client is closed")

    @property
    def _address(self) -> str:
        return f"ws://{self._host}:{self._port}"

    async def _keep_connected(self) -> None:
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
        try:
            _refuse_itself(stream)
            await self._serve(stream)
        finally:
            # Whoever hears our goodbye is cancelled with us, so it is not waited for.
            await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        transport = await connect_websocket(stream, f"{self._host}:{self._port}")
        link = Link(transport)
        try:
            await link.greet(self.name)
            self._adopt(link)
            async with kept_alive(transport, OF_CLIENTS):
                await link.run(self._forget_link)
        finally:
            self._forget_link()

    def _adopt(self, link: Link) -> None:
        self.link = link
        self._connected.set()
        for sender in self.senders:
            sender.pump_all()

    def _forget_link(self) -> None:
        if self.link is not None:
            self.link = None
            self._connected = trio.Event()

    def close(self) -> None:
        self._is_closed = True
        self.link = None
        self._connected.set()


class Connecting:
    """What `connect` gives: enter it to have a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._nursery = PlainNursery()

    async def __aenter__(self) -> Client:
        tasks = await self._nursery.__aenter__()
        self._scope = tasks.cancel_scope
        self._client.open(tasks)
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
    return Connecting(Client(*address_of(url), name, network or TcpNetwork(), clock or SystemClock()))


def address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    if parts.scheme != "ws" or not parts.hostname:
        raise ValueError(f"{url!r} is not an address like ws://127.0.0.1:7710")
    return parts.hostname, parts.port or DEFAULT_PORT


def _final(error: GoQueueError) -> GoQueueError:
    """What the caller hears when asking again is over: our own words for the wire's troubles."""
    if isinstance(error, ConnectionLost | GoingAway):
        return Unavailable(f"the broker could not be reached within {CALL_SECONDS_MAX:g} s: {error.message}")
    return error


def _refuse_itself(stream: trio.abc.Stream) -> None:
    if isinstance(stream, TcpStream) and stream.connects_itself:
        raise ConnectionLost("the socket had connected to itself")
