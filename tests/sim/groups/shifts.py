"""What a member does from entering its group to leaving it.

What it says is written down before it is said and after it was answered, so that whatever comes in between (a lost
line, a dead broker, its own death) leaves the history with what is certain.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from zlib import crc32

import trio

import goqueue
from goqueue.client.consuming.consumer import Consumer
from goqueue.client.consuming.delivery import DeliveredMessage
from goqueue.environment import WallClock
from goqueue.testing.network import SimulatedNetwork
from tests.sim.disk.history import Violation
from tests.sim.groups.history import GroupHistory
from tests.sim.groups.plan import Habit, MemberPlan
from tests.sim.groups.stories import Held

POISON_ODDS = 12
"""One message in so many is poison for a group that has such."""
ROUNDS_MAX = 15
"""Before a member that gives back closes and comes back."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where members live."""

    url: str
    network: SimulatedNetwork
    clock: WallClock
    stopping: trio.Event
    tally: dict[str, int]
    has_sound_disk: Callable[[], bool]
    """Whether the broker has now."""


def assignment_of(consumer: Consumer) -> list[tuple[str, int]]:
    """What it believes to have."""
    return [(each.topic, each.partition) for each in consumer._membership.assignment]


class Death(BaseException):
    """The process of a member ends without a word."""


class Shift:
    """A consumer from entering to leaving, used in the ways of its member."""

    def __init__(
        self,
        holder: str,
        consumer: Consumer,
        plan: MemberPlan,
        history: GroupHistory,
        random: Random,
        site: Site,
        *,
        is_prompt: bool = True,
        has_steady_lines: bool = False,
    ) -> None:
        self._holder, self.consumer, self._plan, self._history = holder, consumer, plan, history
        self._random, self._site, self._is_prompt = random, site, is_prompt
        self._has_steady_lines = has_steady_lines
        self._held: list[Held] = []
        self._in_hand: list[tuple[DeliveredMessage, Held]] = []
        """What came last."""
        self._is_over = False

    async def work(self) -> None:
        comes_back = Habit.CLOSE in self._plan.habits
        rounds = self._random.randint(1, ROUNDS_MAX) if comes_back else 1_000_000
        while rounds and not self._is_over and not self._site.stopping.is_set():
            rounds -= 1
            with suppress(goqueue.Unavailable):
                await self._take_turn(self._random.choice(self._plan.habits))

    async def hear_of_replacement(self) -> None:
        """What is in its hands it may yet try to settle."""
        self._count("fenced")
        pairs = [(message, held) for message, held in self._in_hand if held.is_open]
        if pairs and self._random.random() < 0.7:
            with suppress(goqueue.Unavailable):
                await self._ack([message for message, _ in pairs], [held for _, held in pairs])

    def close(self) -> None:
        """What is in its hands may be given back from now on."""
        self._history.give_back(self._held)

    async def ack(self, messages: list[DeliveredMessage]) -> None:
        """As a careful program would do."""
        await self._ack(messages, self._take_up(messages, is_extended=False))

    # Receiving

    async def _take_turn(self, habit: Habit) -> None:
        if habit is Habit.ITERATE:
            await self._iterate()
            return
        messages = await self._receive()
        if messages:
            row = self._take_up(messages, is_extended=False)
            self._count(habit.name, len(row))
            await self._act(habit, messages, row)

    async def _receive(self) -> list[DeliveredMessage]:
        """Some lose patience: what comes too late for them is there for the next call."""
        timeout = self._random.choice([0.05, 1.0, 5.0])
        with trio.move_on_after(self._random.choice([60.0, 60.0, 0.02])) as patience:
            messages = await self.consumer.receive(self._plan.batch, timeout)
        if patience.cancelled_caught:
            return []
        is_sure = messages or (self._has_steady_lines and self._site.has_sound_disk() and timeout >= 1.0)
        if is_sure and not self._history.setup.is_shared:
            self._history.note_received(self._holder, messages, assignment_of(self.consumer))
        return messages

    async def _iterate(self) -> None:
        with trio.move_on_after(self._random.choice([1.0, 5.0])):
            async for message in self.consumer:
                extended = self._plan.auto_extends is not False
                row = self._take_up([message], is_extended=extended)
                self._count("ITERATE")
                await trio.sleep(self._random.choice([0.0, 0.0, 1.5]) * self._plan.visibility)
                await self._ack([message], row)
                if self._random.random() < 0.1 or self._site.stopping.is_set():
                    return

    def _take_up(self, messages: Sequence[DeliveredMessage], *, is_extended: bool) -> list[Held]:
        membership = self.consumer._membership
        self._history.assign(membership.member, membership.generation, assignment_of(self.consumer))
        row = self._history.hand(
            self._holder,
            self._plan.member_id,
            messages,
            self._plan.visibility,
            is_extended=is_extended,
            is_prompt=self._is_prompt,
        )
        self._held += row
        self._in_hand = list(zip(messages, row, strict=True))
        if not self._site.stopping.is_set() and any(map(self._is_poison, messages)):
            self._count("poisoned")
            raise Death
        return row

    def _is_poison(self, message: DeliveredMessage) -> bool:
        setup = self._history.setup
        return setup.has_poison and crc32(setup.name.encode() + message.value) % POISON_ODDS == 0

    def _count(self, what: str, more: int = 1) -> None:
        self._site.tally[what] = self._site.tally.get(what, 0) + more

    # Settling

    async def _act(self, habit: Habit, messages: list[DeliveredMessage], row: list[Held]) -> None:
        random, visibility = self._random, self._plan.visibility
        some = random.randint(1, len(row))
        match habit:
            case Habit.ACK_ALL:
                await self._ack(messages, row)
            case Habit.ACK_EACH:
                for message, held in zip(messages, row, strict=True):
                    await trio.sleep(random.choice([0.0, 0.0, 0.01]))
                    await self._ack([message], [held])
            case Habit.ACK_PARTLY:
                await self._ack_partly(messages, row)
            case Habit.ACK_TWICE:
                await self._ack(messages, row)
                await trio.sleep(random.choice([0.0, 0.5 * visibility, 2 * visibility]))
                await self._ack(messages, row)
            case Habit.ACK_LATE:
                await trio.sleep(random.choice([0.9 * visibility, 1.1 * visibility + 0.3]))
                await self._ack(messages, row)
            case Habit.EXTEND:
                await self._extend(messages, row)
            case Habit.NACK:
                await self._nack(messages, row)
            case Habit.NACK_WITH_DELAY:
                await self._nack(messages, row, random.choice([0.0, 0.3, 4.0]))
            case Habit.REJECT:
                await self._reject(messages[:1], row[:1])
                await self._ack(messages[1:], row[1:])
            case Habit.RELEASE:
                await self._release(messages[:some], row[:some])
                await self._ack(messages[some:], row[some:])
            case Habit.STALL:
                await trio.sleep(1.1 * visibility)
            case Habit.CLOSE:
                self._is_over = True
            case Habit.DIE:
                if random.random() < 0.5:
                    raise Death

    async def _say(self, row: Sequence[Held], word: Callable[[], Awaitable[None]]) -> set[str] | None:
        """The receipts that are stale; None when nobody knows what became of it, or a power cut took it back."""
        begun_at = trio.current_time()
        stale: set[str] = set()
        try:
            await word()
        except goqueue.StaleReceipt as error:
            stale = set(error.receipts)
            if not stale <= {held.receipt for held in row}:
                raise Violation(
                    f"G6: {error.receipts} are called stale, of {[str(held) for held in row]}"
                ) from error
        except goqueue.GoQueueError as error:
            if not error.retryable:
                raise
            self._count("unanswered")
            return None
        self._count("stale", len(stale))
        return stale if self._history.counts(begun_at) else None

    async def _ack(self, messages: Sequence[DeliveredMessage], row: Sequence[Held]) -> None:
        begun_at, stood = trio.current_time(), {held.receipt for held in row if held.is_open}
        self._history.begin_word(row, acks=True)
        stale = await self._say(row, lambda: self.consumer.ack(list(messages)))
        for held in row if stale is not None else ():
            story = self._history.stories[held.place]
            if held.receipt in (stale or ()):
                story.refuse_ack(held, held.receipt in stood, trio.current_time())
            else:
                story.ack(held, begun_at)
                self._count("acked")

    async def _ack_partly(self, messages: list[DeliveredMessage], row: list[Held]) -> None:
        pairs = list(zip(messages, row, strict=True))
        self._random.shuffle(pairs)
        some = self._random.randint(0, len(pairs))
        for part in (pairs[:some], pairs[some:]):
            await self._ack([message for message, _ in part], [held for _, held in part])

    async def _extend(self, messages: list[DeliveredMessage], row: list[Held]) -> None:
        begun_at, seconds = trio.current_time(), self._random.choice([0.5, 2.0]) * self._plan.visibility
        for held in row:
            self._history.stories[held.place].begin_extension(held, begun_at, seconds)
        stale = await self._say(row, lambda: self.consumer.extend(messages, seconds))
        until_most = self._history.latest_end(seconds) if self._is_prompt else math.inf
        for held in row if stale is not None else ():
            story = self._history.stories[held.place]
            if held.receipt in (stale or ()):
                story.check_may_be_stale(held, held.is_open, trio.current_time())
                story.begin_word(held)
            else:
                story.extend(held, begun_at, seconds, until_most)
        await trio.sleep(self._random.choice([0.5, 0.9, 1.1]) * seconds)
        await self._ack(messages, row)

    async def _nack(self, messages: list[DeliveredMessage], row: list[Held], delay: float | None = None) -> None:
        begun_at, stood = trio.current_time(), {held.receipt for held in row if held.is_open}
        if delay is None and max(held.attempt for held in row) > 3:
            delay = 0.5  # else the world waits for a minute
        self._history.begin_word(row)
        stale = await self._say(row, lambda: self.consumer.nack(messages, delay=delay, reason="not now"))
        for held in self._good(row, stale, stood):
            self._history.stories[held.place].nack(held, begun_at, delay, self._history.setup.max_deliveries)

    async def _reject(self, messages: list[DeliveredMessage], row: list[Held]) -> None:
        begun_at, reason = trio.current_time(), f"{self._holder} cannot"
        stood = {held.receipt for held in row if held.is_open}
        self._history.begin_word(row, reason=reason)
        stale = await self._say(row, lambda: self.consumer.reject(messages, reason))
        for held in self._good(row, stale, stood):
            self._history.stories[held.place].reject(held, begun_at)

    async def _release(self, messages: list[DeliveredMessage], row: list[Held]) -> None:
        stood = {held.receipt for held in row if held.is_open}
        self._history.give_back(row)
        self._good(row, await self._say(row, lambda: self.consumer.release(messages)), stood)

    def _good(self, row: Sequence[Held], stale: set[str] | None, stood: set[str]) -> list[Held]:
        """Those that were settled. G6: a receipt that stood is not called stale, be the first answer lost."""
        for held in row if stale is not None else ():
            if held.receipt in (stale or ()):
                story = self._history.stories[held.place]
                story.check_may_be_stale(held, held.receipt in stood, trio.current_time())
        return [held for held in row if stale is not None and held.receipt not in stale]
