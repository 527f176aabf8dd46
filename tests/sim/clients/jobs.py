"""What the tasks of a client do. Each knows the public client and the history, and nothing of the broker.

The broker may be gone for longer than a call waits; then the call says `Unavailable`, not sooner, and the task
tries again. Every other error is one that the task itself provoked, or a violation.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

import trio

import goqueue
from goqueue.client.producing.producer import Producer
from goqueue.client.reading.reader import Reader
from goqueue.environment import Network
from tests.sim.clients.history import ClientHistory, Sent
from tests.sim.disk.history import Violation

CALL_SECONDS_MAX = 30.0
PUBLISH_SECONDS_MAX = 120.0
DELIVERY_SECONDS = 3_600.0
SLACK_SECONDS = 2.1
"""A call may give up when its next repeat would come too late."""
PAUSES = (0.0, 0.01, 0.05, 0.3)
KEYS = (None, None, b"a", b"b", b"longer key")
SIZES = (1, 40, 300)

Value = TypeVar("Value")


@dataclass(slots=True)
class Desk:
    """What the tasks of one client share, and what they are told."""

    name: str
    client: goqueue.Client
    network: Network
    random: Random
    history: ClientHistory
    stopping: trio.Event
    tally: dict[str, int] = field(default_factory=dict)
    sizes: tuple[int, ...] = SIZES

    @property
    def topics(self) -> list[str]:
        return list(self.history.partitions)

    def count(self, what: str, more: int = 1) -> None:
        self.tally[what] = self.tally.get(what, 0) + more

    async def pause(self) -> None:
        await trio.sleep(self.random.choice(PAUSES))

    def new_value(self, sender: str) -> bytes:
        self.count("sent")
        return f"{sender} {self.tally['sent']} ".encode() + bytes(self.random.choice(self.sizes))

    def priority_of(self, value: bytes) -> goqueue.Priority:
        return goqueue.Priority.NORMAL

    async def patiently(self, call: Callable[[], Awaitable[Value]]) -> Value:
        """Only after its time may a call say that nobody answered."""
        began = trio.current_time()
        try:
            return await call()
        except goqueue.Unavailable as error:
            waited = trio.current_time() - began
            if waited < CALL_SECONDS_MAX - SLACK_SECONDS:
                raise Violation(f"§4: a call gave up after {waited:.3f} s: {error!r}") from error
            self.count("unavailable")
            raise


class Publisher:
    """`client.publish`, one at a time."""

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk, self._name = desk, name

    async def run(self) -> None:
        while not self._desk.stopping.is_set():
            await self._publish()
            await self._desk.pause()

    async def _publish(self) -> None:
        desk, random = self._desk, self._desk.random
        topic, key = random.choice(desk.topics), random.choice(KEYS)
        acks = random.choice([goqueue.Acks.ALL, goqueue.Acks.ALL, goqueue.Acks.LEADER])
        partition = None if key else random.choice([None, random.randrange(desk.history.partitions[topic])])
        sender = f"{self._name} {topic}"
        sent = desk.history.send(sender, desk.new_value(sender), key, acks)
        with trio.move_on_after(random.choice([PUBLISH_SECONDS_MAX + 60] * 9 + [0.02])):
            try:
                published = await desk.patiently(
                    lambda: desk.client.publish(
                        topic,
                        sent.value,
                        key=key,
                        partition=partition,
                        acks=acks,
                        priority=desk.priority_of(sent.value),
                    )
                )
            except goqueue.OutcomeUnknown:
                desk.count("outcome unknown")
            except goqueue.DeliveryTimeout:  # it was not written, and never will be
                desk.history.refuse(sent)
                desk.count("given up")
            except goqueue.Unavailable:
                desk.count("given up")
            else:
                desk.history.confirm(sent, published)
                desk.count("confirmed")
        if not sent.is_confirmed:
            desk.history.give_up(sent)


class Sender:
    """A producer after the other, each with its own settings, used in every way it has."""

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk, self._name = desk, name
        self._producers = 0
        self._queued: list[Sent] = []
        """By `send_nowait`; nobody says what became of them, but a flush says that it is decided."""

    async def run(self) -> None:
        while not self._desk.stopping.is_set():
            try:
                await self._use_one()
            except goqueue.Unavailable:
                continue

    async def _use_one(self) -> None:
        random = self._desk.random
        topic = random.choice(self._desk.topics)
        self._producers += 1
        self._sender = f"{self._name}.{self._producers} {topic}"
        self._acks = random.choice([goqueue.Acks.ALL, goqueue.Acks.LEADER])
        making = self._desk.client.producer(
            topic,
            acks=self._acks,
            linger_ms=random.choice([0, 5, 40]),
            batch_messages=random.choice([2, 100]),
            delivery_timeout=DELIVERY_SECONDS,
        )
        producer = await self._desk.patiently(making.__aenter__)
        try:
            async with _Entered(making):
                await self._use(producer)
        except goqueue.PublishFailed as failed:
            self._some_failed(failed)
        self._decided()

    async def _use(self, producer: Producer) -> None:
        for _ in range(self._desk.random.randint(1, 25)):
            if not self._desk.stopping.is_set():
                await self._desk.random.choice([self._send, self._queue, self._queue, self._send_many])(producer)
                await self._desk.pause()

    def _new(self, key: bytes | None) -> Sent:
        value = self._desk.new_value(self._sender)
        return self._desk.history.send(self._sender, value, key, self._acks)

    async def _send(self, producer: Producer) -> None:
        sent = self._new(self._desk.random.choice(KEYS))
        with trio.move_on_after(self._desk.random.choice([DELIVERY_SECONDS + 1] * 9 + [0.02])):
            try:
                priority = self._desk.priority_of(sent.value)
                self._desk.history.confirm(sent, await producer.send(sent.value, key=sent.key, priority=priority))
            except goqueue.OutcomeUnknown as error:
                self._unknown(error)
        if not sent.is_confirmed:
            self._desk.history.give_up(sent)

    def _unknown(self, error: goqueue.OutcomeUnknown) -> None:
        """What is durable is remembered with its sequence, so that a repeat is always answered."""
        self._desk.count("outcome unknown")
        if self._acks is goqueue.Acks.ALL:
            raise Violation(f"G11: {error!r}, though everything was sent with acks=all")

    async def _queue(self, producer: Producer) -> None:
        """Some come while others are under way, so that they gather behind them."""
        for _ in range(self._desk.random.randint(1, 15)):
            sent = self._new(self._desk.random.choice(KEYS))
            producer.send_nowait(sent.value, key=sent.key, priority=self._desk.priority_of(sent.value))
            self._queued.append(sent)
            await trio.sleep(self._desk.random.choice([0.0, 0.0, 0.002]))
        if self._desk.random.random() < 0.5:
            try:
                await producer.flush()
            except goqueue.PublishFailed as failed:
                self._some_failed(failed)
            self._decided()

    def _some_failed(self, failed: goqueue.PublishFailed) -> None:
        """Some of what was queued; nobody says which."""
        for error in failed.results:
            if not isinstance(error, goqueue.OutcomeUnknown):
                raise Violation(f"G14: what was queued is sound and was refused with {error!r}")
            self._unknown(error)
        for sent in self._queued:
            self._desk.history.give_up(sent)
        self._queued.clear()

    def _decided(self) -> None:
        for sent in self._queued:
            sent.is_confirmed = True
        self._desk.count("confirmed", len(self._queued))
        self._queued.clear()

    async def _send_many(self, producer: Producer) -> None:
        random = self._desk.random
        with_keys = random.random() < 0.5
        messages = [self._new(random.choice(KEYS) if with_keys else None) for _ in range(random.randint(1, 15))]
        keys = [sent.key for sent in messages] if with_keys else None
        try:
            values, priority = [sent.value for sent in messages], self._desk.priority_of(messages[0].value)
            results: Sequence[object] = await producer.send_many(values, keys, priority=priority)
        except goqueue.PublishFailed as failed:
            results = failed.results
        for sent, result in zip(messages, results, strict=True):
            self._take(sent, result)

    def _take(self, sent: Sent, result: object) -> None:
        if isinstance(result, goqueue.OutcomeUnknown):
            self._unknown(result)
            self._desk.history.give_up(sent)
        elif isinstance(result, goqueue.Published):
            self._desk.history.confirm(sent, result)
            self._desk.count("confirmed")
        else:
            raise Violation(f"G14: {sent} is sound and was refused with {result!r}")


class _Entered:
    """Something that was entered before, left at the end of the block."""

    def __init__(self, inner: Producer) -> None:
        self._inner = inner

    async def __aenter__(self) -> None:
        await trio.lowlevel.checkpoint()

    async def __aexit__(self, *details: object) -> None:
        await self._inner.__aexit__(*details)  # type: ignore[arg-type]


class Follower:
    """Reads a topic from its beginning, on and on: every message once, in order, whatever happens to the line.

    One that restarts makes a new reader now and then, of one partition, where the old one was.
    """

    def __init__(self, desk: Desk, *, restarts: bool) -> None:
        self._desk, self._restarts = desk, restarts
        self.topic = desk.random.choice(desk.topics)
        count = desk.history.partitions[self.topic]
        self._only = desk.random.randrange(count) if restarts else None
        numbers = range(count) if self._only is None else [self._only]
        self.positions = dict.fromkeys(numbers, 0)
        self._moved = trio.Event()

    async def run(self) -> None:
        while True:
            start = "earliest" if self._only is None else self.positions[self._only]
            async with self._desk.client.read(self.topic, partition=self._only, start=start) as reader:
                while not (self._restarts and self._desk.random.random() < 0.1):
                    await self._read_one(reader)

    async def _read_one(self, reader: Reader) -> None:
        """Who stops waiting, or was told to try again, goes on where it was."""
        with trio.move_on_after(self._desk.random.choice([3_600.0, 3_600.0, 0.05])):
            try:
                message = await self._desk.patiently(reader.__anext__)
            except goqueue.Unavailable:
                return
            self._take(message)

    def _take(self, message: goqueue.Message) -> None:
        expected = self.positions[message.partition]
        if message.offset != expected:
            raise Violation(
                f"G3: a reader of {self.topic}/{message.partition} was at {expected} and got {message.offset}"
            )
        self._desk.history.see(message)
        self._desk.count("read")
        self.positions[message.partition] = expected + 1
        self._moved.set()

    async def reach(self, ends: Sequence[int]) -> None:
        """Return when it has read up to these offsets."""
        while any(position < ends[number] for number, position in self.positions.items()):
            self._moved = trio.Event()
            await self._moved.wait()
