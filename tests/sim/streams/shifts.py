"""What a member of a stream does from entering its group to leaving it.

What it says is written down before it is said and after it was answered, as members of queues do.
"""

from collections.abc import Sequence
from contextlib import suppress
from random import Random

import trio

import goqueue
from goqueue.client.consuming.delivery import DeliveredMessage
from goqueue.client.streaming.consumer import StreamConsumer
from tests.sim.groups.shifts import Death, Site, assignment_of
from tests.sim.streams.history import Said, StreamHistory
from tests.sim.streams.plan import StreamHabit, StreamMemberPlan
from tests.sim.streams.reading import Key, Reading

ROUNDS_MAX = 15
"""Before a member that closes does so and comes back."""
COMMIT_REFUSALS = (goqueue.StaleGeneration, goqueue.OffsetOutOfRange)


class StreamShift:
    """A consumer from entering to leaving, used in the ways of its member."""

    def __init__(
        self,
        client: goqueue.Client,
        plan: StreamMemberPlan,
        history: StreamHistory,
        reading: Reading,
        random: Random,
        site: Site,
    ) -> None:
        consumer = client.consumer(
            **history.setup.joining,
            auto_commit=plan.auto_commits,
            member_id=plan.member_id,
            on_assigned=reading.gain,
            on_revoked=lambda partitions: history.let_go(reading, partitions),
        )
        assert isinstance(consumer, StreamConsumer)
        self.consumer = consumer
        reading.generation = lambda: consumer._membership.generation
        self._plan, self._history, self._reading, self._random, self._site = plan, history, reading, random, site
        self._is_over = False

    async def work(self) -> None:
        comes_back = StreamHabit.CLOSE in self._plan.habits
        rounds = self._random.randint(1, ROUNDS_MAX) if comes_back else 1_000_000
        try:
            while rounds and not self._is_over and not self._site.stopping.is_set():
                rounds -= 1
                with suppress(goqueue.Unavailable):
                    await self._take_turn(self._random.choice(self._plan.habits))
        except Death:
            self.close()
            raise

    async def hear_of_replacement(self) -> None:
        self._count("stream fenced")

    def close(self) -> None:
        """It commits what was handled, if it does so by itself, and lets go."""
        self._history.close(self._reading)

    # Receiving

    async def receive(self, timeout: float) -> list[DeliveredMessage]:
        self._history.ask(self._reading)
        messages = await self.consumer.receive(self._plan.batch, timeout)
        self._take_up(messages)
        return messages

    async def _receive(self) -> list[DeliveredMessage]:
        """Some lose patience: what comes too late for them is there for the next call."""
        with trio.move_on_after(self._random.choice([60.0, 60.0, 0.02])):
            return await self.receive(self._random.choice([0.05, 1.0, 5.0]))
        return []

    def _take_up(self, messages: Sequence[DeliveredMessage]) -> None:
        membership = self.consumer._membership
        self._history.assign(membership.member, membership.generation, assignment_of(self.consumer))
        for message in messages:
            self._history.hand(self._reading, message, membership.generation)

    def _count(self, what: str, more: int = 1) -> None:
        self._site.tally[what] = self._site.tally.get(what, 0) + more

    # What it does

    async def _take_turn(self, habit: StreamHabit) -> None:
        if habit is StreamHabit.ITERATE:
            await self._iterate()
            return
        if habit is StreamHabit.SEEK:
            await self._seek()
        messages = await self._receive()
        if messages:
            self._count(f"stream {habit.name}", len(messages))
            await self._act(habit, messages)

    async def _act(self, habit: StreamHabit, messages: Sequence[DeliveredMessage]) -> None:
        random = self._random
        match habit:
            case StreamHabit.COMMIT:
                await self.commit()
            case StreamHabit.COMMIT_EACH:
                for message in messages:
                    await trio.sleep(random.choice([0.0, 0.0, 0.01]))
                    await self._commit_behind(message)
            case StreamHabit.COMMIT_BACK:
                await self._commit_behind(random.choice(messages))
                await self._commit_behind(messages[0])
            case StreamHabit.PAUSE:
                await self._pause()
            case StreamHabit.DAWDLE:
                await trio.sleep(random.choice([2.0, 8.0]))
            case StreamHabit.CLOSE:
                self._is_over = True
            case StreamHabit.DIE:
                if random.random() < 0.5:
                    raise Death
            case _:
                await trio.sleep(random.choice([0.0, 0.0, 0.5]))

    async def _iterate(self) -> None:
        with trio.move_on_after(self._random.choice([1.0, 7.0])):
            while True:
                self._history.ask(self._reading)
                message = await anext(self.consumer)
                self._take_up([message])
                self._count("stream ITERATE")
                await trio.sleep(self._random.choice([0.0, 0.0, 0.7]))
                if self._random.random() < 0.1 or self._site.stopping.is_set():
                    return

    # Committing

    async def commit(self) -> None:
        """All that was handed out so far."""
        places = {key: stream.position for key, stream in self.consumer._streams.items()}
        wanted = {key: spot.next for key, spot in self._reading.spots.items() if spot.next is not None}
        said = [self._begin(key, offset, is_sure=places.get(key) == offset) for key, offset in wanted.items()]
        await self._say(said, None)

    async def _commit_behind(self, message: DeliveredMessage) -> None:
        """Whoever has lost the partition says so all the same, and is refused."""
        key = (message.topic, message.partition)
        said = [self._begin(key, message.offset + 1)] if key in self._reading.spots else []
        await self._say(said, message)

    def _begin(self, key: Key, offset: int, *, is_sure: bool = True) -> Said:
        """`is_sure`: others have not moved the consumer, so that it means another offset."""
        stream = self.consumer._streams.get(key)
        is_asked = is_sure and stream is not None and stream.committed != offset
        return self._history.begin_commit(self._reading, key, offset, is_asked=is_asked)

    async def _say(self, said: Sequence[Said], message: DeliveredMessage | None) -> None:
        begun_at = trio.current_time()
        try:
            await self.consumer.commit(message)
        except goqueue.OffsetOutOfRange:
            return
        except goqueue.StaleGeneration as error:
            self._count("stream stale")
            self._note_stale(said, error, begun_at)
            return
        except goqueue.GoQueueError as error:
            if not error.retryable:
                raise
            self._count("stream unanswered")
            return
        for each in said:
            self._count("stream committed")
            self._history.end_commit(self._reading, each, begun_at)

    def _note_stale(self, said: Sequence[Said], error: goqueue.StaleGeneration, begun_at: float) -> None:
        """Partitions that went before are named, and the others are committed."""
        gone = {(topic, partition) for topic, partition in error.details.get("partitions", ())}
        refused = [each.key for each in said if not gone or each.key in gone]
        if self._site.has_sound_disk() and refused:
            self._history.refuse_commit(self._reading, refused, begun_at)
        for each in said if gone else ():
            if each.key not in gone:
                self._history.end_commit(self._reading, each, begun_at)

    # Places

    async def _seek(self) -> None:
        if not self._reading.spots:
            return
        key, spot = self._random.choice(sorted(self._reading.spots.items(), key=lambda item: item[0]))
        near = max(0, (spot.next or 0) + self._random.randint(-6, 2))
        choices: list[int | str] = [near, near, "earliest", "latest"]
        to = self._random.choice(choices)
        with suppress(*COMMIT_REFUSALS):
            await self.consumer.seek(key[1], to, topic=key[0])
            self._note_sought(key)

    def _note_sought(self, key: Key) -> None:
        stream = self.consumer._streams.get(key)
        if stream is not None and stream.position is not None and key in self._reading.spots:
            self._count("stream sought")
            self._history.seek(self._reading, key, stream.position)

    async def _pause(self) -> None:
        """One partition rests, and the others go on."""
        if not self._reading.spots:
            return
        key = self._random.choice(sorted(self._reading.spots))
        spot = self._reading.spots[key]
        with suppress(goqueue.StaleGeneration):
            await self.consumer.pause(key[1], topic=key[0])
            spot.is_paused = True
            for _ in range(3):
                await self._receive()
                await trio.sleep(self._random.choice([0.0, 0.5]))
            await self.consumer.resume(key[1], topic=key[0])
        spot.is_paused = False
