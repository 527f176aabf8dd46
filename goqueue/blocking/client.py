"""The client with `with`, and calls that wait by themselves."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from goqueue.blocking.asking import ask
from goqueue.blocking.consumer import Consumer
from goqueue.blocking.producer import Producer
from goqueue.blocking.reader import Reader
from goqueue.client.client import Client as TrioClient
from goqueue.client.client import connect as connect_in_trio
from goqueue.client.consuming.options import OnPartitions
from goqueue.client.delayed import DelayedPage, DueCount
from goqueue.client.groups import DamagedSkipped, Group, Redriven, ResetPartition
from goqueue.client.link.address import address_of
from goqueue.client.link.moments import Moment
from goqueue.client.link.topics import RestoredPartition, Topic
from goqueue.client.reading.message import Published
from goqueue.client.reading.reader import Start
from goqueue.environment import Network, WallClock
from goqueue.portal.callbacks import in_thread
from goqueue.portal.host import Host
from goqueue.portal.thread import borrow, give_back
from goqueue.portal.waiting import ask_now, leave, wait_for
from goqueue.types import Acks, Offset, Priority


class Client:
    """Made by `connect`."""

    def __init__(self, host: Host[TrioClient], client: TrioClient) -> None:
        self._host = host
        self._client = client

    # Topics

    def create_topic(self, name: str, partitions: int = 3, config: Mapping[str, Any] | None = None) -> Topic:
        return ask(self._host, self._client.create_topic, name, partitions, config)

    def alter_topic(self, name: str, config: Mapping[str, Any]) -> Topic:
        return ask(self._host, self._client.alter_topic, name, config)

    def add_partitions(self, name: str, partitions: int) -> Topic:
        """`partitions` is how many there shall be."""
        return ask(self._host, self._client.add_partitions, name, partitions)

    def delete_topic(self, name: str) -> None:
        ask(self._host, self._client.delete_topic, name)

    def topics(self) -> list[Topic]:
        return ask(self._host, self._client.topics)

    def topic(self, name: str) -> Topic:
        return ask(self._host, self._client.topic, name)

    def purge(self, name: str) -> None:
        ask(self._host, self._client.purge, name)

    def delete_before(self, topic: str, partition: int, offset: Offset) -> None:
        ask(self._host, self._client.delete_before, topic, partition, offset)

    def restore_partition(
        self, topic: str, partition: int, *, accept_loss: bool = False, at_least: Offset = 0
    ) -> RestoredPartition:
        """Restart a lost partition, empty, behind every offset that is known of. Without `accept_loss` a dry run.

        `at_least` is an offset that the broker may not know of, such as the partition's end in a backup.
        """
        restore = partial(self._client.restore_partition, accept_loss=accept_loss, at_least=at_least)
        return ask(self._host, restore, topic, partition)

    def stats(self) -> Mapping[str, Any]:
        return ask(self._host, self._client.stats)

    # Publishing

    def publish(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        headers: Mapping[str, bytes] | None = None,
        priority: Priority | int | str = Priority.NORMAL,
        partition: int | None = None,
        delay: float | None = None,
        deliver_at: Moment | None = None,
        ttl: float | None = None,
        message_id: bytes | str | None = None,
        acks: Acks | int | str = Acks.ALL,
    ) -> Published:
        """Publish one message and wait until it is confirmed. Repeated after a lost answer, it is there once."""
        return ask(
            self._host,
            self._client.publish,
            topic,
            value,
            key=key,
            headers=headers,
            priority=priority,
            partition=partition,
            delay=delay,
            deliver_at=deliver_at,
            ttl=ttl,
            message_id=message_id,
            acks=acks,
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
        """The fast way to publish: `with client.producer("orders") as producer`."""
        producer = ask_now(
            self._host,
            self._client.producer,
            topic,
            acks=acks,
            linger_ms=linger_ms,
            batch_messages=batch_messages,
            batch_bytes=batch_bytes,
            buffer_messages=buffer_messages,
            delivery_timeout=delivery_timeout,
            idempotent=idempotent,
        )
        return Producer(self._host, producer)

    # Delayed messages

    def delayed(
        self,
        topic: str,
        *,
        partition: int | None = None,
        after: tuple[int, Offset] | None = None,
        limit: int = 1_000,
        state: str = "pending",
    ) -> DelayedPage:
        """Those that wait for their time, in order of partitions and offsets, or with "finished" what became of the
        last ones that no longer do. The `next` of a page is the `after` of the following one.
        """
        return ask(
            self._host, self._client.delayed, topic, partition=partition, after=after, limit=limit, state=state
        )

    def count_delayed(self, topic: str, *, partition: int | None = None) -> int:
        """How many are pending."""
        return ask(self._host, self._client.count_delayed, topic, partition=partition)

    def delayed_by_due(self, topic: str, *, partition: int | None = None) -> list[DueCount]:
        """How many are pending and due within a second from now, ten, a minute, and so on."""
        return ask(self._host, self._client.delayed_by_due, topic, partition=partition)

    def cancel_delayed(self, topic: str, partition: int, offset: Offset) -> bool:
        """True when it will never be delivered; False when it was, or there was none."""
        return ask(self._host, self._client.cancel_delayed, topic, partition, offset)

    def reschedule_delayed(
        self,
        topic: str,
        partition: int,
        offset: Offset,
        *,
        delay: float | None = None,
        deliver_at: Moment | None = None,
    ) -> bool:
        """To a time, or to so many seconds from now. False when it is not pending."""
        return ask(
            self._host,
            self._client.reschedule_delayed,
            topic,
            partition,
            offset,
            delay=delay,
            deliver_at=deliver_at,
        )

    def deliver_delayed(self, topic: str, partition: int, offset: Offset) -> bool:
        """At once. False when it is not pending."""
        return ask(self._host, self._client.deliver_delayed, topic, partition, offset)

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
        reader = ask_now(self._host, self._client.read, topic, partition=partition, start=start, end=end)
        return Reader(self._host, reader)

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
        assignor: str | None = None,
        rebalance: str | None = None,
        start: Start = "earliest",
        max_in_flight: int = 4_000,
        max_in_flight_bytes: int = 16 * 1024 * 1024,
        visibility_timeout: float = 30.0,
        auto_extend: bool | None = None,
        member_id: str | None = None,
        auto_commit: bool = True,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
    ) -> Consumer:
        """A member of a group: `with client.consumer("orders", group="billing") as consumer`.

        `topics` is a name, a list of names or a pattern. What the group shares and is not given is as the group
        has it, which its first member decides. In mode "stream" offsets are committed, by itself unless
        `auto_commit` is False; `on_assigned` and `on_revoked` are told of partitions that come and go.
        """
        consumer = ask_now(
            self._host,
            self._client.consumer,
            topics,
            group=group,
            mode=mode,
            shared=shared,
            key_order=key_order,
            lanes=lanes,
            max_deliveries=max_deliveries,
            assignor=assignor,
            rebalance=rebalance,
            start=start,
            max_in_flight=max_in_flight,
            max_in_flight_bytes=max_in_flight_bytes,
            visibility_timeout=visibility_timeout,
            auto_extend=auto_extend,
            member_id=member_id,
            auto_commit=auto_commit,
            on_assigned=in_thread(on_assigned),
            on_revoked=in_thread(on_revoked),
        )
        return Consumer(self._host, consumer)

    # Groups

    def groups(self) -> list[Group]:
        return ask(self._host, self._client.groups)

    def group(self, name: str) -> Group:
        """Its members, and for each partition how far it is."""
        return ask(self._host, self._client.group, name)

    def alter_group(self, name: str, settings: Mapping[str, Any], *, force: bool = False) -> Group:
        """Other settings; None resets one. Of a group with members only by `force`."""
        return ask(self._host, self._client.alter_group, name, settings, force=force)

    def reset_group(
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
        return ask(
            self._host,
            self._client.reset_group,
            name,
            start,
            topic=topic,
            partition=partition,
            dry_run=dry_run,
            force=force,
        )

    def skip_damaged(
        self,
        group: str,
        topic: str,
        partition: int,
        first: Offset,
        last: Offset,
        *,
        dry_run: bool = False,
    ) -> DamagedSkipped:
        """Give up the messages of these offsets, the last one included, that the broker cannot read: the group goes
        on behind them. A dry run says what would be. A stream must have no members."""
        return ask(
            self._host,
            self._client.skip_damaged,
            group,
            topic,
            partition,
            first,
            last,
            dry_run=dry_run,
        )

    def commit(self, group: str, topic: str, offsets: Mapping[int, Offset]) -> None:
        """For readers outside of a group: where it is to go on, by partition. It is made if need be, as a stream.

        `GroupConflict` while it has members, who commit by themselves.
        """
        ask(self._host, self._client.commit, group, topic, offsets)

    def delete_group(self, name: str) -> None:
        """A group without members, and its progress."""
        ask(self._host, self._client.delete_group, name)

    def redrive(
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
        return ask(
            self._host,
            self._client.redrive,
            topic,
            group=group,
            partition=partition,
            offsets=offsets,
            reason=reason,
            to=to,
            all_groups=all_groups,
            max_messages=max_messages,
            per_second=per_second,
            dry_run=dry_run,
        )

    def why(self, group: str, member: str | None = None) -> str:
        """Why nothing is being delivered to a group, or to one of its members: one sentence with figures."""
        return ask(self._host, self._client.why, group, member)


class Connecting:
    """What `connect` gives: enter it to have a client."""

    def __init__(self, url: str, name: str, network: Network | None, clock: WallClock | None) -> None:
        address_of(url)
        self._make = partial(connect_in_trio, url, name=name, network=network, clock=clock)

    def __enter__(self) -> Client:
        self._host = Host("client", self._make, borrow())
        try:
            return Client(self._host, wait_for(self._host.thread, self._host.enter))
        except BaseException:
            give_back(self._host.thread)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            leave(self._host, failed=kind is not None)
        finally:
            give_back(self._host.thread)


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
    return Connecting(url, name, network, clock)
