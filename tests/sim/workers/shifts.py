"""A worker from entering its group to leaving it: the client's own, with handlers that write down what they do."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from zlib import crc32

import trio

import goqueue
from goqueue.client.consuming.delivery import DeliveredMessage, Portion
from goqueue.client.consuming.options import ConsumerOptions
from goqueue.client.consuming.queue import QueueConsumer
from goqueue.client.consuming.settling import SettleOutcome, Word
from goqueue.client.working.handlers import Handlers, HandlersToldOfEnds, TaskHandlers
from goqueue.client.working.rules import Working
from goqueue.client.working.settling import is_open
from goqueue.core.ledger.settlements import Action
from goqueue.core.receiving.pace import BATCH_MAX
from goqueue.nursery import PlainNursery
from tests.sim.groups.members import Circumstances
from tests.sim.groups.shifts import POISON_ODDS, Death, Site
from tests.sim.groups.stories import Held
from tests.sim.workers.history import WorkerHistory
from tests.sim.workers.plan import WorkerPlan

FAILING_ATTEMPTS_MAX = 3
"""Later ones would wait for a minute."""


class HandlerFailed(Exception):
    """What a handler raises."""


class NotedHandlers(TaskHandlers):
    def __init__(self, shift: "WorkerShift", ends: HandlersToldOfEnds, nursery: trio.Nursery) -> None:
        super().__init__(shift.handle, ends, nursery)
        self._shift = shift

    def begin(self, messages: Sequence[Any]) -> None:
        if not self._shift.is_dead:
            self._shift.note_begun(messages)
            super().begin(messages)


class WorkerShift:
    def __init__(
        self,
        client: goqueue.Client,
        holder: str,
        plan: WorkerPlan,
        history: WorkerHistory,
        random: Random,
        site: Site,
        by: Circumstances,
        die: Callable[[], bool],
    ) -> None:
        """`die` ends the process at once. It returns whether what the process has said before is heard."""
        self._holder, self._plan, self._history = holder, plan, history
        self._random, self._site, self._by, self._die = random, site, by, die
        self._held: dict[Any, Held] = {}
        self._acked: list[tuple[Held, float]] = []
        """With the time at which the handler returned."""
        self._stood: set[str] = set()
        """Receipts of which nothing was said before their ack."""
        self._stale: set[str] = set()
        self._is_unsure = False
        """An ack has failed, and nobody knows which."""
        self._dead = trio.Event()
        self._working = Working(plan.concurrency)
        self.consumer = QueueConsumer(client, self._options())
        self._working.attach(self.consumer)
        self.consumer._is_patient = False  # what is told of its group begins when it is a member
        self._note_what_is_told()

    def _options(self) -> ConsumerOptions:
        return ConsumerOptions(
            **self._history.setup.joining,
            visibility_timeout=self._plan.visibility,
            auto_extend=True,
            member_id=self._plan.member_id,
            max_in_flight=2 * self._plan.concurrency + 2 * BATCH_MAX + 1,
            on_ack_error=self._note_ack_error,
        )

    def _note_what_is_told(self) -> None:
        unconfirmed, settling, tell = self.consumer._unconfirmed, self.consumer._settling, self._history.tell
        begin, say = unconfirmed.begin, settling.say

        def begin_noted(messages: Sequence[Any]) -> None:
            tell(messages)
            begin(messages)

        async def say_noted(word: Word, portions: Sequence[Portion]) -> SettleOutcome:
            if word.action is Action.BEGIN:
                for portion in portions:
                    tell(portion.delivery.messages if portion.messages is None else portion.messages)
            return await say(word, portions)

        unconfirmed.begin, settling.say = begin_noted, say_noted  # type: ignore[method-assign]

    @property
    def is_dead(self) -> bool:
        return self._dead.is_set()

    # Its work

    async def work(self) -> None:
        async with PlainNursery() as nursery:
            nursery.start_soon(self._end_some_time)
            nursery.start_soon(self._cancel_when_dead, nursery)
            await self._working.run(self.consumer, self._run_handlers)
            nursery.cancel_scope.cancel()
        if self.is_dead:
            raise Death

    async def _end_some_time(self) -> None:
        with trio.move_on_after(self._random.choice([0.5, 3.0, 1_000.0]) * self._random.uniform(0.5, 1.5)):
            await self._site.stopping.wait()
        self._count("worker stopped")
        self._working.stop(self._random.choice([30.0, 30.0, 0.2, 0.0]))

    async def _cancel_when_dead(self, nursery: trio.Nursery) -> None:
        await self._dead.wait()
        nursery.cancel_scope.cancel()

    @asynccontextmanager
    async def _run_handlers(self, ends: HandlersToldOfEnds) -> AsyncIterator[Handlers]:
        async with PlainNursery() as nursery:
            yield NotedHandlers(self, ends, nursery)

    def note_begun(self, messages: Sequence[DeliveredMessage]) -> None:
        by, site = self._by, self._site
        is_sound = by.has_steady_lines and by.is_prompt and site.has_sound_disk()
        for message in messages:
            self._held[message] = self._history.begin(
                self._holder,
                self._plan.member_id,
                message,
                self._plan.visibility,
                is_prompt=by.is_prompt,
                is_sound=is_sound,
            )
        self._count("begun", len(messages))

    async def handle(self, message: DeliveredMessage) -> None:
        random, held, is_calm = self._random, self._held[message], self._site.stopping.is_set()
        if not is_calm and self._is_poison(message):
            await self._die_at_once("poisoned")
        await trio.sleep(random.choice(self._plan.seconds))
        if not is_calm and random.random() < self._plan.deadly:
            await self._die_at_once("died at work")
        if random.random() < self._plan.failing and message.attempt <= FAILING_ATTEMPTS_MAX:
            self._history.begin_word([held])
            self._count("failed")
            raise HandlerFailed
        if is_open(message):
            self._note_ack(held)

    def _is_poison(self, message: DeliveredMessage) -> bool:
        setup, value = self._history.setup, message.value or b""
        return setup.has_poison and crc32(setup.name.encode() + value) % POISON_ODDS == 0

    async def _die_at_once(self, how: str) -> None:
        if not self.is_dead:
            self._count(how)
            self._count("held ahead at death", len(self.consumer._stock.ahead))
            if not self._die():
                self._history.may_not_count(self._held.values())
            self._dead.set()
        await trio.sleep_forever()

    def _count(self, what: str, more: int = 1) -> None:
        self._site.tally[what] = self._site.tally.get(what, 0) + more

    # Acks that nobody waits for

    def _note_ack(self, held: Held) -> None:
        if held.is_open:
            self._stood.add(held.receipt)
        self._history.begin_word([held], acks=True)
        self._acked.append((held, trio.current_time()))

    def _note_ack_error(self, error: goqueue.GoQueueError) -> None:
        if not isinstance(error, goqueue.StaleReceipt):
            self._is_unsure = True
            return
        self._stale.update(error.receipts)
        self._count("stale", len(error.receipts))
        for held, acked_at in self._acked:
            if held.receipt in error.receipts and self._history.counts(acked_at):
                story, now = self._history.stories[held.place], trio.current_time()
                story.refuse_ack(held, held.receipt in self._stood, now)

    def note_left(self) -> None:
        """It has closed, and had no trouble: every ack was answered."""
        if self._is_unsure or self.consumer._unconfirmed.count:
            return
        for held, acked_at in self._acked:
            if held.receipt not in self._stale and self._history.counts(acked_at):
                self._history.stories[held.place].ack(held, acked_at)
                self._count("acked")

    # The end

    async def hear_of_replacement(self) -> None:
        self._is_unsure = True
        self._count("fenced")

    def close(self) -> None:
        """Handlers that did not end are cancelled, and their messages given back."""
        self._history.give_back([held for held in self._held.values() if held.is_open])
