"""The client for Trio: `async with goqueue.connect("ws://127.0.0.1:7710") as client`.

One connection serves everything that a client does, and the client reconnects when it is lost
(client/link/connection.py). Errors are raised as they are, never in an exception group.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Unpack, overload
from uuid import uuid4

import trio

from goqueue.client.consuming.consumer import Consumer
from goqueue.client.consuming.options import ConsumerOptions
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.client.delayed import Delayed, DelayedPage, DelayedQuestions, DueCount, WhichDelayed
from goqueue.client.groups import (
    DamagedSkipped,
    Group,
    ResetPartition,
    altering,
    asking_why,
    group_of,
    resetting,
    skipping,
)
from goqueue.client.health import health_of
from goqueue.client.letters import (
    DeadLetterCounts,
    DeadLetterPage,
    Dismissed,
    Redriven,
    counts_of,
    dismissing,
    page_of,
    redriving,
    wanted_letters,
)
from goqueue.client.link.address import address_of
from goqueue.client.link.arguments import (
    check_any_partition,
    check_client_name,
    check_flag,
    check_offset,
    check_partition_count,
    check_settings,
)
from goqueue.client.link.connection import Connected
from goqueue.client.link.creating import found_or_created
from goqueue.client.link.entering import entered_by
from goqueue.client.link.moments import Moment
from goqueue.client.link.topics import RestoredPartition, Topic, only_topic, topic_of
from goqueue.client.producing.content import acks_of
from goqueue.client.producing.options import ProducerOptions, SendOptions, takes_send_options
from goqueue.client.producing.producer import Producer
from goqueue.client.producing.publishers import Publishers
from goqueue.client.producing.timelimit import PUBLISH_SECONDS, TimeLimit
from goqueue.client.producing.typed import TypedProducer, ValueT, takes_producer_options
from goqueue.client.reading.message import Message, Published
from goqueue.client.reading.reader import Reader, Start
from goqueue.client.schemas.outgoing import Outgoing
from goqueue.client.schemas.registry import (
    LATEST,
    AnyVersion,
    SchemaFindings,
    SchemaQuestions,
    source_to_register,
)
from goqueue.client.schemas.source import AnyReference, AnySchema, RegisteredSchema, WrittenSchema
from goqueue.client.streaming.consumer import StreamConsumer
from goqueue.client.streaming.outside import commit_from_outside
from goqueue.core.health import Health
from goqueue.core.names import check_group_name, check_letters_of, check_publishable, check_topic_name
from goqueue.core.records.jsonvalue import json_bytes
from goqueue.environment import Network, SystemClock, TcpNetwork, WallClock
from goqueue.errors import Closed
from goqueue.net.wire import groups as group_wire
from goqueue.net.wire import letters as letter_wire
from goqueue.net.wire import messages as wire
from goqueue.nursery import PlainNursery
from goqueue.portal.eventloop import check_trio_runs
from goqueue.portal.forwarding import taking
from goqueue.types import Acks, Offset, Seconds


class Client(Connected):
    """Made by `connect`."""

    def __init__(self, host: str, port: int, name: str, network: Network, clock: WallClock) -> None:
        super().__init__(host, port, name, network)
        self.clock = clock
        self._publishers = Publishers(self)
        self._delayed = DelayedQuestions(self)
        self._schemas = SchemaQuestions(self)

    # Topics

    async def create_topic(
        self, name: str, partitions: int = 3, config: Mapping[str, Any] | None = None, *, exist_ok: bool = False
    ) -> Topic:
        """With `exist_ok` a topic that is there already is returned, if it has these partitions and each setting
        that is given; else `TopicExists` names what differs.
        """
        check_topic_name(name)
        count = check_partition_count(partitions)
        settings = check_settings("config", {} if config is None else config)
        token = uuid4().bytes  # the same in all repeats: after a lost answer the topic is known as this call's
        request = wire.CreateTopic(name, count, settings, token)
        if check_flag("exist_ok", exist_ok):
            return await found_or_created(self, request)
        return only_topic(await self.call(request, wire.Topics))

    async def alter_topic(self, name: str, config: Mapping[str, Any]) -> Topic:
        check_publishable(name)
        return only_topic(await self.call(wire.AlterTopic(name, check_settings("config", config)), wire.Topics))

    async def add_partitions(self, name: str, partitions: int) -> Topic:
        """`partitions` is the new total."""
        check_publishable(name)
        asked = wire.AddPartitions(name, check_partition_count(partitions))
        topic = only_topic(await self.call(asked, wire.Topics))
        for sender in list(self.senders):
            if sender.topic.name == name:
                await sender.refresh()
        return topic

    async def delete_topic(self, name: str) -> None:
        check_publishable(name)
        uuid = (await self.topic(name)).uuid  # a late repeat must not delete a topic that was created again
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
        number, first = check_any_partition(partition), check_offset("offset", offset)
        await self.call(wire.DeleteBefore(check_publishable(topic), number, first), wire.Done)

    async def restore_partition(
        self, topic: str, partition: int, *, accept_loss: bool = False, at_least: Offset = 0
    ) -> RestoredPartition:
        """Restart a lost partition, empty, behind every known offset. Without `accept_loss` it is a dry run.

        `at_least` is an offset that the broker may not know, such as the partition's end in a backup.
        """
        request = wire.RestorePartition(
            check_topic_name(topic, by_broker=True),
            check_any_partition(partition),
            check_flag("accept_loss", accept_loss),
            check_offset("at_least", at_least),
        )
        return RestoredPartition(*await self.call(request, wire.PartitionRestored))

    async def health(self, *, for_publish: bool = False) -> Health:
        """Whether the broker serves, and what impairs it. `for_publish`: whether it takes publishes, too."""
        asked = wire.CheckHealth(check_flag("for_publish", for_publish))
        return health_of(await self.call(asked, wire.HealthReport))

    async def stats(self) -> Mapping[str, Any]:
        return (await self.call(wire.Stats(), wire.StatsReport)).counters

    # Publishing

    @takes_send_options
    async def publish(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        acks: Acks | int | str = Acks.ALL,
        timeout: Seconds | None = None,
        **options: Unpack[SendOptions],
    ) -> Published:
        """Publish one message and wait until it is confirmed. A repeat after a lost answer does not double it.

        The value None is a tombstone: it deletes its key, and compaction removes the key's messages. It gives up
        after `timeout` seconds, 30 by itself: `DeliveryTimeout` when the message is not written and never will be,
        `DeliveryUnknown` when it may be.
        """
        self._check_open()
        target = check_publishable(topic), acks_of(acks)
        publisher = self._publishers.ready(*target) if timeout is None else None
        if publisher is not None:
            with suppress(Closed):  # it was retired before it took the message
                return await publisher.send_within(None, value, key, options)
        limit = TimeLimit(PUBLISH_SECONDS if timeout is None else timeout)
        while True:
            self._check_open()
            publisher = await self._publishers.to(*target, limit)
            with suppress(Closed):
                return await publisher.send_within(limit, value, key, options)

    @takes_send_options
    async def publish_json(
        self,
        topic: str,
        value: Any,
        *,
        key: bytes | None = None,
        acks: Acks | int | str = Acks.ALL,
        timeout: Seconds | None = None,
        **options: Unpack[SendOptions],
    ) -> Published:
        """Publish a value as compact JSON in UTF-8; `message.json()` gives it back. None is JSON's `null`, and no
        tombstone. All else is as for `publish`.
        """
        return await self.publish(topic, json_bytes(value), key=key, acks=acks, timeout=timeout, **options)

    def ready_publisher(self, target: tuple[str, Acks]) -> Producer | None:
        """The producer behind `publish` for a topic and a kind of acks, if it is open."""
        return self._publishers.ready(*target)

    async def publish_as(
        self, target: tuple[str, Acks], value: bytes | None, key: bytes | None, options: Mapping[str, Any]
    ) -> Published:
        topic, acks = target
        return await self.publish(topic, value, key=key, acks=acks, **options)

    @overload
    def producer(self, topic: str, *, schema: None = None, **options: Unpack[ProducerOptions]) -> Producer: ...

    @overload
    def producer(
        self, topic: str, *, schema: type[ValueT], register: bool = True, **options: Unpack[ProducerOptions]
    ) -> TypedProducer[ValueT]: ...

    @overload
    def producer(
        self, topic: str, *, schema: WrittenSchema, register: bool = True, **options: Unpack[ProducerOptions]
    ) -> TypedProducer[Any]: ...

    @takes_producer_options
    def producer(
        self, topic: str, *, schema: AnySchema = None, register: bool = True, **options: Unpack[ProducerOptions]
    ) -> Producer | TypedProducer[Any]:
        """The fast way to publish: `async with client.producer("orders") as producer`.

        With `schema`, a pydantic model, a dataclass or JSON Schema, it sends objects, and each message names the
        schema, which is registered for the topic's values when the producer is entered; with `register=False` it
        has to be there.
        """
        self._check_open()
        producer = Producer(self, topic, **options)
        if schema is None:
            return producer
        return TypedProducer(self, producer, topic, Outgoing(topic, schema, register))

    # Delayed messages

    async def delayed(
        self,
        topic: str,
        *,
        partition: int | None = None,
        after: tuple[int, Offset] | None = None,
        limit: int = 1_000,
        state: str = "pending",
    ) -> DelayedPage:
        """Pending messages, in the order of partitions and offsets, or with "finished" the last ones that are no
        longer pending. The `next` of a page is the `after` of the following one.
        """
        return await self._delayed.page(topic, partition, after, limit, state)

    async def count_delayed(self, topic: str, *, partition: int | None = None) -> int:
        """The number of pending messages."""
        return await self._delayed.count(topic, partition)

    async def delayed_by_due(self, topic: str, *, partition: int | None = None) -> list[DueCount]:
        """The numbers of pending messages that are due within a second from now, ten, a minute, and so on."""
        return await self._delayed.histogram(topic, partition)

    async def delayed_message(
        self, topic: str, message_id: bytes | str, *, partition: int | None = None, key: bytes | None = None
    ) -> Delayed | None:
        """The pending message that was published with this id; of several, the one that is due first.

        A key spares asking all partitions. Ids may be used again after two minutes, so there may be several.
        """
        return next(iter(await self._delayed.find(topic, message_id, partition, key)), None)

    async def cancel_delayed(
        self,
        topic: str,
        partition: int | None = None,
        offset: Offset | None = None,
        *,
        message_id: bytes | str | None = None,
        key: bytes | None = None,
    ) -> bool:
        """True when the message will never be delivered; False when it was delivered, or does not exist.

        `message_id` stands for all pending messages with that id: True when one of them was cancelled.
        """
        return await self._delayed.cancel(topic, WhichDelayed(partition, offset, message_id, key))

    async def reschedule_delayed(
        self,
        topic: str,
        partition: int | None = None,
        offset: Offset | None = None,
        *,
        message_id: bytes | str | None = None,
        key: bytes | None = None,
        delay: Seconds | None = None,
        deliver_at: Moment | None = None,
    ) -> bool:
        """Move a pending message to a time, or to a number of seconds from now. False when it is not pending."""
        which = WhichDelayed(partition, offset, message_id, key)
        return await self._delayed.move(topic, which, delay, deliver_at)

    async def deliver_delayed(
        self,
        topic: str,
        partition: int | None = None,
        offset: Offset | None = None,
        *,
        message_id: bytes | str | None = None,
        key: bytes | None = None,
    ) -> bool:
        """Deliver a pending message at once. False when it is not pending."""
        return await self._delayed.move(topic, WhichDelayed(partition, offset, message_id, key), 0, None)

    # Reading

    def read(
        self,
        topic: str,
        *,
        partition: int | None = None,
        start: Start = "earliest",
        end: Start | None = None,
    ) -> Reader:
        """The messages of a topic, without a group. Follows unless `end` is given: an offset, "latest" or a time,
        which is looked up once, at the start."""
        self._check_open()
        return Reader(self, topic, partition, start, end)

    @taking(ConsumerOptions)
    def consumer(self, topics: str | Sequence[str], **options: Any) -> Consumer:
        """A member of a group: `async with client.consumer("orders", group="billing") as consumer`.

        `topics` is a name, a list of names or a pattern. The first member decides the group's settings; a setting
        that is not given is that of the group. In mode "stream" offsets are committed, automatically unless
        `auto_commit` is False; `on_assigned` and `on_revoked` are called with partitions that come and go.
        """
        self._check_open()
        asked = ConsumerOptions(topics, **options)
        return StreamConsumer(self, asked) if asked.mode == "stream" else QueueConsumer(self, asked)

    # Groups

    async def groups(self) -> list[Group]:
        answer = await self.call(group_wire.DescribeGroups(None), group_wire.Groups)
        return [group_of(each) for each in answer.groups]

    async def group(self, name: str) -> Group:
        """A group: its members, and its progress on each partition."""
        return await self._one_group(group_wire.DescribeGroups((check_group_name(name),)))

    async def alter_group(self, name: str, settings: Mapping[str, Any], *, force: bool = False) -> Group:
        """Change settings; None resets one. A group with members needs `force`."""
        return await self._one_group(altering(name, settings, force))

    async def _one_group(self, request: group_wire.DescribeGroups | group_wire.AlterGroup) -> Group:
        [description] = (await self.call(request, group_wire.Groups)).groups
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
        """Let a group begin again at `start`. A dry run changes nothing. A group with members needs `force`."""
        request = resetting(name, start, topic=topic, partition=partition, dry_run=dry_run, force=force)
        answer = await self.call(request, group_wire.GroupReset)
        return [ResetPartition(*each) for each in answer.partitions]

    async def skip_damaged(
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
        on behind them. A dry run changes nothing. A stream must have no members."""
        request = skipping(group, topic, partition, first, last, dry_run=dry_run)
        return DamagedSkipped(*await self.call(request, group_wire.DamagedSkipped))

    async def commit(self, group: str, topic: str, offsets: Mapping[int, Offset]) -> None:
        """Commit offsets by partition, for readers outside of a group. It is created if need be, as a stream.

        `GroupConflict` while it has members, which commit for themselves.
        """
        await commit_from_outside(self, group, topic, offsets)

    async def delete_group(self, name: str) -> None:
        """Delete a group without members, and its progress."""
        await self.call(group_wire.DeleteGroup(check_group_name(name)), wire.Done)

    # Schemas

    async def register_schema(
        self,
        subject: str,
        schema: AnySchema,
        references: Iterable[AnyReference] = (),
        *,
        schema_type: str | None = None,
        normalize: bool | None = None,
        force: bool = False,
        schema_id: int | None = None,
        version: int | None = None,
    ) -> RegisteredSchema:
        """The version of the subject that has this schema: a new one, unless it is there already.

        A topic's values are held to the subject `{topic}-value`, its keys to `{topic}-key`. `schema` is JSON Schema
        as text, bytes, a dict or a bool, a pydantic model or a dataclass. `references` name versions of other
        subjects by what `$ref` says. `IncompatibleSchema` when it is not compatible with earlier versions, which
        `force` does not ask. `schema_id` and `version` are for a subject in mode IMPORT.
        """
        registered, _ = await self._schemas.register(
            subject,
            source_to_register(schema, references, schema_type),
            normalize=normalize,
            force=force,
            schema_id=schema_id,
            version=version,
        )
        return registered

    async def schema(
        self, subject: str, version: AnyVersion = LATEST, *, deleted: bool = False
    ) -> RegisteredSchema:
        """A version of a subject, by its number or the newest; with `deleted` also a softly deleted one."""
        return await self._schemas.get(subject, version, deleted=deleted)

    async def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id, as one of its subjects has it; also when it is softly deleted."""
        return await self._schemas.by_id(schema_id)

    async def find_schema(
        self, subject: str, schema: AnySchema, references: Iterable[AnyReference] = ()
    ) -> RegisteredSchema:
        """The version of the subject that has this very schema; `UnknownSchema` when there is none."""
        return await self._schemas.find(subject, source_to_register(schema, references))

    async def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """The names of all subjects that begin so, in order; with `deleted` also those that are softly deleted."""
        return await self._schemas.subjects(prefix, deleted=deleted)

    async def schema_versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The versions of a subject, by rising number."""
        return await self._schemas.versions(subject, deleted=deleted)

    async def check_schema(
        self,
        subject: str,
        schema: AnySchema,
        references: Iterable[AnyReference] = (),
        *,
        version: AnyVersion | None = None,
    ) -> SchemaFindings:
        """Why this schema could not be registered for the subject; empty when it could. Nothing is registered.

        It is compared with the versions that the subject's compatibility says, or with `version` alone.
        """
        return await self._schemas.check(subject, source_to_register(schema, references), version=version)

    async def compatibility(self, subject: str | None = None) -> str:
        """The level that holds for a subject, or for all that have none of their own."""
        return str((await self._schemas.settings(subject)).level)

    async def set_compatibility(self, subject: str | None, level: str | None) -> None:
        """NONE, BACKWARD, FORWARD, FULL, or one of the last three with `_TRANSITIVE`.

        `subject` None is for all that have no level of their own; `level` None takes a subject's own back.
        """
        if level is None:
            await self._schemas.reset(subject, config=True)
        else:
            await self._schemas.change(subject, level=level)

    async def schema_mode(self, subject: str | None = None) -> str:
        """READWRITE, READONLY or IMPORT: the mode that holds for a subject, or for all without one of their own."""
        return str((await self._schemas.settings(subject)).mode)

    async def set_schema_mode(self, subject: str | None, mode: str | None, *, force: bool = False) -> None:
        """READONLY refuses new versions; IMPORT, of an empty subject, takes ids and versions as they are given.

        `mode` None takes back what the subject has of its own. `force` is for IMPORT of a subject with versions.
        """
        if mode is None:
            await self._schemas.reset(subject, mode=True)
        else:
            await self._schemas.change(subject, mode=mode, force=force)

    async def delete_schema(
        self, subject: str, version: AnyVersion | None = None, *, permanent: bool = False
    ) -> list[int]:
        """Delete one version, or all of the subject; returns their numbers.

        A deleted version validates nothing any more. With `permanent` it is gone, if it was deleted before. Neither
        its number nor its id is given again.
        """
        return await self._schemas.delete(subject, version, permanent=permanent)

    # Dead letters

    async def dead_letters(
        self,
        topic: str,
        *,
        group: str | None = None,
        partition: int | None = None,
        offsets: Sequence[Offset] | None = None,
        reason: str | None = None,
        state: str | None = None,
        after: tuple[int, Offset] | None = None,
        limit: int = 100,
    ) -> DeadLetterPage:
        """Dead letters of a topic that match all given arguments, and what was decided about each.

        `partition` and `offsets` are those in the dead-letter topic; `reason` is a part of the reason in a header;
        `state` is "waiting", "redriven" or "dismissed". `after` is the `next` of the page before.
        """
        wanted = wanted_letters(
            topic, group=group, partition=partition, offsets=offsets, reason=reason, state=state
        )
        return await page_of(self, self._stretch, wanted, after, limit)

    async def _stretch(self, topic: str, partition: int, start: Offset, end: Offset) -> list[Message]:
        async with self.read(topic, partition=partition, start=start, end=end) as reader:
            return [message async for message in reader]

    async def count_dead_letters(self, topic: str) -> DeadLetterCounts:
        """How many dead letters of a topic wait, were sent back, and were dismissed."""
        request = letter_wire.CountLetters(check_letters_of(topic))
        counted = await self.call(request, letter_wire.LettersCounted)
        if not counted.partitions:  # the first dead letter creates their topic; or there is no such topic at all
            await self.topic(topic)
        return counts_of(counted.partitions)

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
        again: bool = False,
    ) -> Redriven:
        """Send dead letters of a topic back, each once: those that wait and match all given arguments.

        `partition` and `offsets` are those in the dead-letter topic; `reason` is a part of the reason in a header.
        They go to the group that gave them up, with `all_groups` to all, or to another topic. With `again` also
        those that were sent back or dismissed before.
        """
        request = redriving(
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
            again=again,
        )
        return Redriven(*await self.call(request, letter_wire.Redriven))

    async def dismiss(
        self,
        topic: str,
        *,
        group: str | None = None,
        partition: int | None = None,
        offsets: Sequence[Offset] | None = None,
        reason: str | None = None,
        note: str = "",
        max_messages: int | None = None,
        dry_run: bool = False,
    ) -> Dismissed:
        """Dismiss dead letters of a topic: those that wait and match all given arguments, or all that wait.

        They stay in the log, with `note`, and no redrive sends them back unless it is asked for `again`.
        """
        request = dismissing(
            topic,
            group=group,
            partition=partition,
            offsets=offsets,
            reason=reason,
            note=note,
            max_messages=max_messages,
            dry_run=dry_run,
        )
        return Dismissed(*await self.call(request, letter_wire.Dismissed))

    async def why(self, group: str, member: str | None = None) -> str:
        """Why nothing is being delivered to a group, or to one of its members: one sentence with figures."""
        return (await self.call(asking_why(group, member), group_wire.Because)).why


@entered_by(
    "async with goqueue.connect() as client", "a program without an event loop has goqueue.blocking.connect"
)
class Connecting:
    """The result of `connect`: enter it to get a client.

    The connection outlives a cancellation of the block until the block is left: a consumer that is cancelled with
    its client, as by Ctrl-C, can still release its messages.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._scope = trio.CancelScope(shield=True)

    async def __aenter__(self) -> Client:
        """Not by `nursery.start`: when cancelled, that would wait for its shielded task for ever."""
        check_trio_runs()
        self._nursery = PlainNursery()
        outer, opened = await self._nursery.__aenter__(), trio.Event()
        outer.start_soon(self._run, opened)
        with trio.CancelScope(shield=True):  # for one step only
            await opened.wait()
        return self._client

    async def _run(self, opened: trio.Event) -> None:
        with self._scope:
            async with trio.open_nursery() as tasks:
                self._client.open(tasks)
                opened.set()
                await trio.sleep_forever()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._client.close()
        self._scope.cancel()
        return await self._nursery.__aexit__(kind, error, trace)


def connect(
    url: str | None = None,
    *,
    name: str = "goqueue",
    network: Network | None = None,
    clock: WallClock | None = None,
) -> Connecting:
    """A client of the broker at this address, by itself `GOQUEUE_URL` of the environment or ws://127.0.0.1:7710.

    The broker may be down: the first call waits for it. `network` and `clock` are the machine's own unless a test
    passes others.
    """
    named = check_client_name(name)
    return Connecting(Client(*address_of(url), named, network or TcpNetwork(), clock or SystemClock()))
