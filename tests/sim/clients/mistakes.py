"""Bad input, and the errors that it must get: the same at every way in (G14, G16). And administration."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

import goqueue
from tests.sim.clients.jobs import DELIVERY_SECONDS, Desk
from tests.sim.clients.plan import MESSAGE_BYTES_MAX
from tests.sim.disk.history import Violation

EXTRA_TOPICS_MAX = 3


class Blunderer:
    """Makes one mistake after the other and looks at the answers. Nobody else may notice."""

    def __init__(self, desk: Desk, host: str, port: int) -> None:
        self._desk, self._host, self._port = desk, host, port

    async def run(self) -> None:
        mistakes = [
            self._too_large,
            self._text,
            self._no_such_topic,
            self._no_such_partition,
            self._no_such_offset,
            self._bad_names,
            self._bad_priority,
            self._topic_again,
            self._noise,
        ]
        while not self._desk.stopping.is_set():
            await self._desk.random.choice(mistakes)()
            self._desk.count("mistakes")
            await self._desk.pause()

    async def _refused(self, error: type[goqueue.GoQueueError], call: Callable[[], Awaitable[object]]) -> None:
        try:
            answer = await self._desk.patiently(call)
        except error as refusal:
            if not (type(refusal) is error and str(refusal) and refusal.code):
                raise Violation(f"G14: {refusal!r} instead of {error.__name__}") from refusal
        except goqueue.Unavailable:
            return
        else:
            raise Violation(f"G14: {error.__name__} was due, {answer!r} came")

    async def _at_every_entry(self, error: type[goqueue.GoQueueError], value: bytes) -> None:
        """G16: what is refused at one way in is refused at all of them."""
        client, topic = self._desk.client, self._topic()
        await self._refused(error, lambda: client.publish(topic, value))

        async def send() -> None:
            async with client.producer(topic, delivery_timeout=DELIVERY_SECONDS) as producer:
                await producer.send(value)

        await self._refused(error, send)
        await self._refused(error, lambda: self._send_between_others(topic, value))

    async def _send_between_others(self, topic: str, bad: bytes) -> None:
        """The neighbours of a bad message are published; it alone fails."""
        desk = self._desk
        sender = f"{desk.name} blunderer {len(desk.history.sent)} {topic}"  # no two alike: several blunder at once
        good = [desk.history.send(sender, desk.new_value(sender), None, goqueue.Acks.ALL) for _ in range(2)]
        try:
            async with desk.client.producer(topic, delivery_timeout=DELIVERY_SECONDS) as producer:
                await producer.send_many([good[0].value, bad, good[1].value])
        except goqueue.PublishFailed as failed:
            for sent, result in zip(good, (failed.results[0], failed.results[2]), strict=True):
                if not isinstance(result, goqueue.Published):
                    raise Violation(f"G14: {sent} failed with {result!r} because of its neighbour") from failed
                desk.history.confirm(sent, result)
            raise _error_in(failed.results[1]) from None
        except goqueue.Unavailable:
            for sent in good:
                desk.history.give_up(sent)
            raise

    def _topic(self) -> str:
        return self._desk.random.choice(self._desk.topics)

    async def _too_large(self) -> None:
        """By the topic's own limit: the broker alone knows it."""
        desk = self._desk
        value = desk.new_value(f"{desk.name} too large") + bytes(MESSAGE_BYTES_MAX)
        desk.history.refuse(desk.history.send(f"{desk.name} too large", value, None, goqueue.Acks.ALL))
        await self._at_every_entry(goqueue.TooLarge, value)

    async def _text(self) -> None:
        await self._at_every_entry(goqueue.InvalidMessage, "text")  # type: ignore[arg-type]

    async def _no_such_topic(self) -> None:
        client = self._desk.client
        await self._refused(goqueue.UnknownTopic, lambda: client.publish("nowhere", b"lost"))
        await self._refused(goqueue.UnknownTopic, lambda: client.read("nowhere").__anext__())
        await self._refused(goqueue.UnknownTopic, client.producer("nowhere").__aenter__)
        await self._refused(goqueue.UnknownTopic, lambda: client.topic("nowhere"))

    async def _no_such_partition(self) -> None:
        client, topic = self._desk.client, self._topic()
        await self._refused(goqueue.UnknownPartition, lambda: client.publish(topic, b"lost", partition=99))
        await self._refused(goqueue.UnknownPartition, lambda: client.read(topic, partition=99).__anext__())

    async def _no_such_offset(self) -> None:
        client, topic = self._desk.client, self._topic()
        beyond = client.read(topic, partition=0, start=10**12)
        await self._refused(goqueue.OffsetOutOfRange, beyond.__anext__)

    async def _bad_names(self) -> None:
        client = self._desk.client
        for name in ("a/b", "..", "", "__internal", "x" * 300):
            await self._refused(goqueue.InvalidName, lambda name=name: client.create_topic(name))  # type: ignore[misc]

    async def _bad_priority(self) -> None:
        client, topic = self._desk.client, self._topic()
        await self._refused(goqueue.InvalidMessage, lambda: client.publish(topic, b"lost", priority=77))

    async def _topic_again(self) -> None:
        client, topic = self._desk.client, self._topic()
        await self._refused(goqueue.TopicExists, lambda: client.create_topic(topic))
        await self._refused(goqueue.InvalidConfig, lambda: client.alter_topic(topic, {"retention_hours": -1}))

    async def _noise(self) -> None:
        """Bytes that are no websocket; and whoever sent them leaves without a word."""
        try:
            stream = await self._desk.network.connect(self._host, self._port)
            async with stream:
                await stream.send_all(self._desk.random.randbytes(self._desk.random.randint(1, 300)))
                with trio.move_on_after(1):
                    await stream.receive_some()
        except (OSError, trio.BrokenResourceError):
            return


def _error_in(result: object) -> goqueue.GoQueueError:
    if isinstance(result, goqueue.GoQueueError):
        return result
    raise Violation(f"G14: an error was due, {result!r} came")


class Administrator:
    """Makes topics, changes them, and finds them as it left them."""

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk, self._name = desk, name
        self._asked = 0
        self._made: dict[str, int] = {}
        self._hours: dict[str, int | None] = {}
        """None while nobody knows."""

    async def run(self) -> None:
        while not self._desk.stopping.is_set():
            with suppress(goqueue.Unavailable):
                await self._desk.random.choice([self._make, self._alter, self._look])()
            await trio.sleep(self._desk.random.uniform(0, 1))

    async def _make(self) -> None:
        if self._asked >= EXTRA_TOPICS_MAX:
            return
        self._asked += 1
        name, partitions = f"{self._name}-{self._asked}", self._desk.random.randint(1, 2)
        self._made[name], self._hours[name] = partitions, 168
        try:
            topic = await self._desk.patiently(lambda: self._desk.client.create_topic(name, partitions))
        except goqueue.TopicExists:
            return  # asked twice, since the first answer was lost
        except goqueue.Unavailable:
            del self._made[name]  # perhaps it is there
            raise
        self._check(topic)

    async def _alter(self) -> None:
        if not self._made:
            return
        name, hours = self._desk.random.choice(list(self._made)), self._desk.random.randint(1, 1_000)
        self._hours[name] = None
        await self._desk.patiently(lambda: self._desk.client.alter_topic(name, {"retention_hours": hours}))
        self._hours[name] = hours

    async def _look(self) -> None:
        topics = {topic.name: topic for topic in await self._desk.patiently(self._desk.client.topics)}
        for name in self._made:
            if name not in topics:
                raise Violation(f"G1: topic {name} was made and is gone")
            self._check(topics[name])

    def _check(self, topic: goqueue.Topic) -> None:
        hours = self._hours[topic.name]
        if len(topic.partitions) != self._made[topic.name] or hours not in (None, topic.config["retention_hours"]):
            raise Violation(f"G1: topic {topic} is not as it was made")
