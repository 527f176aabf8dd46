"""What the tasks of a client do with delayed messages. Each knows the public client and the history."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import trio

import goqueue
from goqueue.client.delayed import Delayed
from goqueue.errors import ActorDied, DiskFull
from tests.sim.delays.history import Cancel, DelayHistory, Due, Waiting
from tests.sim.disk.history import Violation

PUBLISH_SECONDS_MAX = 180.0
LINGERING_SECONDS = 10.0
"""For so long the broker may still do what was asked on a line that is gone."""
PAUSES = (0.01, 0.1, 0.5, 0.9)
KEYS = (None, None, b"a", b"b")
PRIORITIES = (goqueue.Priority.NORMAL, goqueue.Priority.NORMAL, goqueue.Priority.CRITICAL, goqueue.Priority.LOW)
DELAYS = (0.0, 0.000_001, 0.004, 0.03, 0.5, 2.0, 6.0, 600.0, 3_000.0, 7_200.0, 700_000.0)
MOMENTS = (-100.0, -0.5, 0.0, 0.02, 1.0, 5.0, 1_000.0)
"""Of `deliver_at`, from now."""
LOST = (goqueue.Unavailable, goqueue.UnknownTopic, ActorDied, DiskFull)
"""Nobody says what became of it. An actor dies when its topic is deleted."""


@dataclass(slots=True)
class DelayDesk:
    name: str
    client: goqueue.Client
    random: Random
    history: DelayHistory
    stopping: trio.Event
    tally: dict[str, int]
    uses_ids: bool = False
    compacted: frozenset[str] = frozenset()
    """Topics that take no message without a key."""

    def count(self, what: str) -> None:
        self.tally[what] = self.tally.get(what, 0) + 1

    async def pause(self) -> None:
        await trio.sleep(self.random.choice(PAUSES))

    def drawn_due(self) -> tuple[dict[str, float], Due]:
        """What a call is given, and what it means."""
        now, random = trio.current_time(), self.random
        if random.random() < 0.7:
            delay = random.choice(DELAYS) * random.choice([1.0, random.uniform(0.5, 1.0)])
            return {"delay": delay}, Due(now, None, -int(-delay * 1_000_000 // 1))
        at = self.history.clock.now() + round(random.choice(MOMENTS) * 1_000_000)
        return {"deliver_at": at / 1_000_000}, Due(now, round(at / 1_000_000 * 1_000_000))


class DelayPublisher:
    def __init__(self, desk: DelayDesk) -> None:
        self._desk = desk

    async def run(self) -> None:
        while not self._desk.stopping.is_set():
            for _ in range(self._desk.random.choice([1, 1, 2, 6])):
                await self._publish()
            await self._desk.pause()

    async def publish_again(self, cancelled: Waiting) -> None:
        """Another message with the id of one that was cancelled, where that one was."""
        when, message = self._drawn()
        self._desk.history.publish(
            replace(message, topic=cancelled.topic, key=cancelled.key, message_id=cancelled.message_id)
        )
        await self._send(when, self._desk.history.messages[message.value])
        self._desk.count("id used again")

    async def _publish(self) -> None:
        when, message = self._drawn()
        self._desk.history.publish(message)
        await self._send(when, message)

    async def _send(self, when: dict[str, float], message: Waiting) -> None:
        desk, random = self._desk, self._desk.random
        given: dict[str, Any] = {
            "key": message.key,
            "headers": message.headers,
            "priority": message.priority,
            "acks": message.acks,
            "message_id": message.message_id,
            **when,
        }
        with trio.move_on_after(random.choice([PUBLISH_SECONDS_MAX] * 9 + [0.02])):
            try:
                published = await desk.client.publish(message.topic, message.value, **given)
            except (*LOST, goqueue.OutcomeUnknown, goqueue.Closed):  # closed: the topic was made anew meanwhile
                desk.count("publish lost")
            except goqueue.DeliveryTimeout:  # it was not written, and never will be
                message.is_refused = True
            except goqueue.InvalidMessage:
                if message.key is not None or message.topic not in desk.compacted:
                    raise
                message.is_refused = True
                desk.count("without a key")
            else:
                if message.key is None and message.topic in desk.compacted:
                    raise Violation(f"G16: {message} has no key, and its topic is compacted")
                desk.history.confirm(message, published)
                desk.count("confirmed")

    def _drawn(self) -> tuple[dict[str, float], Waiting]:
        desk, random = self._desk, self._desk.random
        when, due = desk.drawn_due()
        desk.count("published")
        name = f"{desk.name} {desk.tally['published']}"
        return when, Waiting(
            value=f"{name} ".encode() + bytes(random.choice([0, 40, 300])),
            topic=random.choice(list(desk.history.partitions)),
            key=random.choice(KEYS),
            headers=random.choice([{}, {}, {"a": b"1"}]),
            priority=random.choice(PRIORITIES),
            acks=random.choice([goqueue.Acks.ALL, goqueue.Acks.ALL, goqueue.Acks.LEADER]),
            since=trio.current_time(),
            dues=[due],
            is_plain=when.get("delay") == 0,
            message_id=random.choice([None, f"id {name}"]) if desk.uses_ids else None,
        )


class Changer:
    """Cancels messages, gives them another time, delivers them; uses ids of cancelled ones again, later."""

    def __init__(self, desk: DelayDesk) -> None:
        self._desk = desk
        self._freed: list[Waiting] = []

    async def run(self) -> None:
        while not self._desk.stopping.is_set():
            await self._desk.pause()
            if self._freed and self._desk.random.random() < 0.2:
                await DelayPublisher(self._desk).publish_again(self._freed.pop())
            message = self._drawn()
            if message is not None:
                change = self._desk.random.choice([self._cancel, self._move, self._move, self._deliver])
                self._desk.history.begin_change(message)
                await change(message)
                self._desk.history.end_change(message)

    def _drawn(self) -> Waiting | None:
        """Mostly one that waits; now and then any."""
        known = [each for each in self._desk.history.by_place.values() if each.is_certain and not each.is_busy]
        waiting = [each for each in known if not each.has_come and each.cancel is not Cancel.DONE]
        random = self._desk.random
        return random.choice(waiting if waiting and random.random() < 0.8 else known) if known else None

    async def _cancel(self, message: Waiting) -> None:
        assert message.place is not None
        since, before = trio.current_time(), message.cancel
        if before is Cancel.NO:
            message.cancel = Cancel.PERHAPS
        try:
            answer = await self._desk.client.cancel_delayed(*message.place)
        except LOST:
            await self._linger("cancel lost")
            return
        self._desk.history.cancelled(message, since, answer=answer)
        self._desk.count("cancelled" if answer else "not cancelled")
        if answer and message.is_certain and before is Cancel.NO and message.message_id is not None:
            self._freed.append(message)

    async def _linger(self, what: str) -> None:
        self._desk.count(what)
        await trio.sleep(LINGERING_SECONDS)

    async def _move(self, message: Waiting) -> None:
        assert message.place is not None
        when, due = self._desk.drawn_due()
        message.dues.append(due)
        try:
            answer = await self._desk.client.reschedule_delayed(*message.place, **when)  # type: ignore[arg-type]
        except LOST:
            await self._linger("move lost")
            due.until = trio.current_time()
            return
        self._desk.history.moved(message, due, due.since, answer=answer)
        self._desk.count("moved" if answer else "not moved")

    async def _deliver(self, message: Waiting) -> None:
        assert message.place is not None
        due = Due(trio.current_time(), None)
        message.dues.append(due)
        try:
            answer = await self._desk.client.deliver_delayed(*message.place)
        except LOST:
            await self._linger("deliver lost")
            due.until = trio.current_time()
            return
        self._desk.history.moved(message, due, due.since, answer=answer)
        self._desk.count("delivered now" if answer else "not delivered now")


class Lister:
    def __init__(self, desk: DelayDesk) -> None:
        self._desk = desk

    async def run(self) -> None:
        while not self._desk.stopping.is_set():
            await trio.sleep(self._desk.random.choice([0.05, 0.5, 2.0]))
            topic = self._desk.random.choice(list(self._desk.history.partitions))
            try:
                await look(self._desk.client, self._desk.history, topic, self._desk.random.choice([1, 7, 1_000]))
            except LOST:
                self._desk.count("listing lost")
            else:
                self._desk.count("listed")


async def look(client: goqueue.Client, history: DelayHistory, topic: str, limit: int = 1_000) -> None:
    """All that is pending, page by page, and what has ended, against the books. What ends meanwhile is let pass."""
    since, listed, after = trio.current_time(), list[Delayed](), None
    while True:
        page = await client.delayed(topic, after=after, limit=limit)
        listed += page
        after = page.next
        if after is None:
            break
    history.check_listing(topic, since, listed)
    history.note_finished(topic, await client.delayed(topic, state="finished", limit=10_000))


class Purger:
    """Purges a topic now and then, or deletes it and makes it anew."""

    def __init__(self, desk: DelayDesk, configs: dict[str, dict[str, Any]]) -> None:
        self._desk, self._configs = desk, configs

    async def run(self) -> None:
        while not self._desk.stopping.is_set():
            await trio.sleep(self._desk.random.choice([0.5, 2.0, 6.0]))
            topic = self._desk.random.choice(list(self._desk.history.partitions))
            known = self._desk.history.begin_purge(topic)
            is_purged = await self._desk.random.choice([self._purge, self._purge, self._make_anew])(topic)
            self._desk.history.end_purge(topic, known if is_purged else ())

    async def _purge(self, topic: str) -> bool:
        try:
            await self._desk.client.purge(topic)
        except LOST:
            await trio.sleep(LINGERING_SECONDS)
            return False
        self._desk.count("purged")
        return True

    async def _make_anew(self, topic: str) -> bool:
        try:
            await self._desk.client.delete_topic(topic)
        except LOST:
            await trio.sleep(LINGERING_SECONDS)
        while True:
            try:
                await self._desk.client.create_topic(
                    topic, self._desk.history.partitions[topic], self._configs[topic]
                )
            except goqueue.TopicExists:
                break
            except LOST:
                await self._desk.pause()
            else:
                break
        self._desk.count("made anew")
        return False
