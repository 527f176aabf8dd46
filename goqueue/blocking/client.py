"""The client with `with`, and calls that wait by themselves."""

from functools import partial
from types import TracebackType
from typing import Any, Unpack, overload

from goqueue.blocking.asking import ask
from goqueue.blocking.consumer import Consumer
from goqueue.blocking.forwarding import forwarded
from goqueue.blocking.producer import Producer
from goqueue.blocking.reader import Reader
from goqueue.blocking.typed import TypedProducer
from goqueue.client.client import Client as TrioClient
from goqueue.client.client import connect as connect_in_trio
from goqueue.client.consuming.options import CALLBACKS
from goqueue.client.link.address import address_of
from goqueue.client.link.arguments import check_client_name
from goqueue.client.link.entering import entered_by
from goqueue.client.producing.content import acks_of
from goqueue.client.producing.intake import Intake
from goqueue.client.producing.options import ProducerOptions
from goqueue.client.producing.shortcut import Shortcut
from goqueue.client.producing.typed import TypedProducer as TrioTypedProducer
from goqueue.client.producing.typed import ValueT, takes_producer_options
from goqueue.client.reading.message import Published
from goqueue.client.schemas.source import AnySchema, WrittenSchema
from goqueue.core.names import check_publishable
from goqueue.core.records.jsonvalue import json_bytes
from goqueue.environment import Network, WallClock
from goqueue.portal.callbacks import in_thread
from goqueue.portal.forwarding import like
from goqueue.portal.homes import client_host
from goqueue.portal.host import Host
from goqueue.portal.thread import give_back
from goqueue.portal.waiting import ask_now, leave, wait_for
from goqueue.types import Acks, Seconds


class Client:
    """Made by `connect`."""

    def __init__(self, host: Host[TrioClient], client: TrioClient) -> None:
        self._host = host
        self._inner = client
        self._intake = Intake(host, client.ready_publisher, client.publish_as)
        self._shortcut = Shortcut(host, client, client.open_direct)

    # Topics

    create_topic = forwarded(TrioClient.create_topic)
    alter_topic = forwarded(TrioClient.alter_topic)
    add_partitions = forwarded(TrioClient.add_partitions)
    delete_topic = forwarded(TrioClient.delete_topic)
    topics = forwarded(TrioClient.topics)
    topic = forwarded(TrioClient.topic)
    purge = forwarded(TrioClient.purge)
    delete_before = forwarded(TrioClient.delete_before)
    restore_partition = forwarded(TrioClient.restore_partition)
    health = forwarded(TrioClient.health)
    stats = forwarded(TrioClient.stats)

    # Publishing

    @like(TrioClient.publish)
    def publish(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        acks: Acks | int | str = Acks.ALL,
        timeout: Seconds | None = None,
        **options: Any,
    ) -> Published:
        target = check_publishable(topic), acks_of(acks)
        if timeout is not None:
            return ask(
                self._host, self._inner.publish, topic, value, key=key, acks=acks, timeout=timeout, **options
            )
        publisher = self._inner.ready_publisher(target)
        return self._shortcut.send(publisher, self._intake, value, key, options) or wait_for(
            self._host.thread, lambda call: self._intake.put(call, target, value, key, options)
        )

    @like(TrioClient.publish_json)
    def publish_json(self, topic: str, value: Any, **options: Any) -> Published:
        return self.publish(topic, json_bytes(value), **options)

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
        """The fast way to publish: `with client.producer("orders") as producer`."""
        make: Any = partial(self._inner.producer, topic, schema=schema, register=register, **options)
        producer: Any = ask_now(self._host, make)
        if not isinstance(producer, TrioTypedProducer):
            return Producer(self._host, producer, self._shortcut)
        return TypedProducer(self._host, Producer(self._host, producer.producer, self._shortcut), producer)

    # Delayed messages

    delayed = forwarded(TrioClient.delayed)
    count_delayed = forwarded(TrioClient.count_delayed)
    delayed_by_due = forwarded(TrioClient.delayed_by_due)
    delayed_message = forwarded(TrioClient.delayed_message)
    cancel_delayed = forwarded(TrioClient.cancel_delayed)
    reschedule_delayed = forwarded(TrioClient.reschedule_delayed)
    deliver_delayed = forwarded(TrioClient.deliver_delayed)

    # Reading

    @like(TrioClient.read)
    def read(self, topic: str, **options: Any) -> Reader:
        return Reader(self._host, ask_now(self._host, self._inner.read, topic, **options))

    @like(TrioClient.consumer)
    def consumer(self, topics: Any, **options: Any) -> Consumer:
        """A member of a group: `with client.consumer("orders", group="billing") as consumer`."""
        options |= {name: in_thread(options.get(name)) for name in CALLBACKS}
        return Consumer(self._host, ask_now(self._host, self._inner.consumer, topics, **options))

    # Groups

    groups = forwarded(TrioClient.groups)
    group = forwarded(TrioClient.group)
    alter_group = forwarded(TrioClient.alter_group)
    reset_group = forwarded(TrioClient.reset_group)
    skip_damaged = forwarded(TrioClient.skip_damaged)
    commit = forwarded(TrioClient.commit)
    delete_group = forwarded(TrioClient.delete_group)
    why = forwarded(TrioClient.why)

    # Schemas

    register_schema = forwarded(TrioClient.register_schema)
    schema = forwarded(TrioClient.schema)
    schema_by_id = forwarded(TrioClient.schema_by_id)
    find_schema = forwarded(TrioClient.find_schema)
    subjects = forwarded(TrioClient.subjects)
    schema_versions = forwarded(TrioClient.schema_versions)
    check_schema = forwarded(TrioClient.check_schema)
    compatibility = forwarded(TrioClient.compatibility)
    set_compatibility = forwarded(TrioClient.set_compatibility)
    schema_mode = forwarded(TrioClient.schema_mode)
    set_schema_mode = forwarded(TrioClient.set_schema_mode)
    delete_schema = forwarded(TrioClient.delete_schema)

    # Dead letters

    dead_letters = forwarded(TrioClient.dead_letters)
    count_dead_letters = forwarded(TrioClient.count_dead_letters)
    redrive = forwarded(TrioClient.redrive)
    dismiss = forwarded(TrioClient.dismiss)


@entered_by(
    "with goqueue.blocking.connect() as client", "asyncio has goqueue.aio.connect, Trio has goqueue.connect"
)
class Connecting:
    """What `connect` gives: enter it to have a client."""

    def __init__(self, url: str | None, name: str, network: Network | None, clock: WallClock | None) -> None:
        connecting = partial(connect_in_trio, url, name=check_client_name(name))
        self._make_host = partial(client_host, address_of(url), connecting, network, clock)

    def __enter__(self) -> Client:
        self._host = self._make_host()
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
    url: str | None = None,
    *,
    name: str = "goqueue",
    network: Network | None = None,
    clock: WallClock | None = None,
) -> Connecting:
    """A client of the broker at this address, by itself `GOQUEUE_URL` of the environment or ws://127.0.0.1:7710.

    The broker may be down: the first call waits for it. `network` and `clock` are the machine's own unless a test
    brings others.
    """
    return Connecting(url, name, network, clock)
