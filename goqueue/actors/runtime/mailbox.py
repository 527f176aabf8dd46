"""The mailbox: takes the messages for an actor. It outlives the actor, so that a ref outlives a restart.

Letters wait in a queue, news in slots. Three rules keep callers and senders from hanging:

- The queue is bounded by its senders: the letter of one that finds no room is queued all the same, and the sender
  waits until there is room for it. So `abandon` empties the queue and tells every caller that the actor died, in
  one step.
- A reply is in the list of the unsettled from the moment its letter is taken until it is settled. However an actor
  ends, that list and the queue together name every caller that still waits.
- News never takes room in the queue. An actor that sleeps is woken; one that works looks at its news before it
  sleeps again.

Deadlines are kept by an alarm that goes on from one sleep to the next: most actors sleep a thousand times until the
same deadline, and a cancel scope for each sleep would cost as much as the letter that ends it.
"""

import math
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

import trio

from goqueue.actors.runtime.cycles import CallWait, Party
from goqueue.actors.runtime.messages import Letter, News, Reply
from goqueue.errors import ActorDied, MailboxFull


class MailboxState(Enum):
    DOWN = "down"
    """There is no actor, and none is being started: calls and casts are refused, news is dropped."""
    EXPECTING = "expecting"
    """An actor is being started: messages wait for it."""
    LIVE = "live"
    STOPPING = "stopping"
    """The actor finishes the letters that it has; only news is still accepted."""


_NEXT = {
    MailboxState.DOWN: {MailboxState.EXPECTING},
    MailboxState.EXPECTING: {MailboxState.LIVE, MailboxState.DOWN},
    MailboxState.LIVE: {MailboxState.STOPPING, MailboxState.DOWN},
    MailboxState.STOPPING: {MailboxState.DOWN},
}


@dataclass(slots=True)
class MailboxCounts:
    """The counters of a mailbox since it was made, over all restarts."""

    depth_highest: int = 0
    """The most letters that were queued at a time."""
    turns: int = 0
    handled: int = 0
    hints: int = 0
    starts: int = 0


@dataclass(slots=True)
class SiblingCounts:
    """Counters that all children of one supervisor share: while they stand still, no child needs a look."""

    starts: int = 0


class Mailbox:
    def __init__(self, name: str, size_max: int) -> None:
        if size_max < 1:
            raise ValueError(f"mailbox_size_max of {name} is {size_max}; it must be at least 1")
        self.party = Party(name)
        self.size_max = size_max
        self.state = MailboxState.DOWN
        self.counts = MailboxCounts()
        self.siblings = SiblingCounts()
        self.hinted = trio.Event()
        self.board: object | None = None
        """An object that the actor shows to others while it lives."""
        self.idle = False
        self.unsettled: dict[Reply[Any], None] = {}
        self._accepts = False
        self._news: dict[tuple[str, type[News]], News] = {}
        self._letters: deque[Letter] = deque()
        self._beyond: dict[Letter, trio.Event] = {}
        """The letters beyond the bound, in order: each sender waits for its event."""
        self._expected_of: CallWait | None = None
        self._moved: trio.Event | None = None
        self._alarm_at = math.inf
        self._alarm_set = trio.Event()

    # The life of the box.

    def expect(self, starter: Party | None = None) -> None:
        """An actor will be started here, by `starter`: from now on callers wait for it."""
        self._move(MailboxState.EXPECTING)
        if starter is not None:
            self._expected_of = CallWait(starter)
            self.party.waits.append(self._expected_of)

    def go_live(self) -> None:
        self._move(MailboxState.LIVE)

    def refuse_new(self) -> None:
        self._move(MailboxState.STOPPING)
        self.wake()

    def abandon(self, how: str, cause: BaseException | None = None) -> None:
        """The actor is gone: every caller that still waits gets `ActorDied`. News stays for a successor."""
        self._move(MailboxState.DOWN)
        self._take_letters([], len(self._letters))
        for reply in list(self.unsettled):
            reply.fail(self._death(how, cause))

    def _move(self, state: MailboxState) -> None:
        if state not in _NEXT[self.state]:
            raise RuntimeError(f"{self.party.name} is {self.state.value} and cannot become {state.value}")
        self.state = state
        self._accepts = state in (MailboxState.EXPECTING, MailboxState.LIVE)
        if self._expected_of is not None:
            self.party.waits.remove(self._expected_of)
            self._expected_of = None
        if self._moved is not None:
            self._moved.set()
            self._moved = None

    async def wait_for_board(self) -> object | None:
        """The board, as soon as the actor that is being started has started."""
        while self.board is None and self.state is not MailboxState.LIVE:
            self._check_accepts()
            self._moved = self._moved or trio.Event()
            await self._moved.wait()
        return self.board

    def _death(self, how: str, cause: BaseException | None) -> ActorDied:
        death = ActorDied(f"{self.party.name} {how}", actor=self.party.name)
        death.__cause__ = cause
        return death

    # Senders.

    async def post(self, letter: Letter) -> None:
        """Put a letter in, waiting for room."""
        if not self.post_if_room(letter):
            self._beyond[letter] = trio.Event()
            self._put(letter)
            try:
                await self._beyond[letter].wait()
            except BaseException:
                if self._beyond.pop(letter, None) is not None:
                    self._letters.remove(letter)  # cancelled: it was never sent
                raise

    def post_at_once(self, letter: Letter) -> None:
        if not self.post_if_room(letter):
            raise MailboxFull(f"the mailbox of {self.party.name} holds {self.size_max} letters; try again later")

    def post_if_room(self, letter: Letter) -> bool:
        self._check_accepts()
        has_room = len(self._letters) < self.size_max
        if has_room:
            self._put(letter)
        return has_room

    def _check_accepts(self) -> None:
        if not self._accepts:
            raise self._death(f"is {self.state.value}", None)

    def _put(self, letter: Letter) -> None:
        self._letters.append(letter)
        if len(self._letters) > self.counts.depth_highest:
            self.counts.depth_highest = len(self._letters)
        self.wake()

    def post_news(self, sender: str, news: News) -> None:
        if self.state is MailboxState.DOWN:
            return
        self._news[sender, type(news)] = news
        self.wake()

    def wake(self) -> None:
        """Make the actor look at its deadline, news and state again."""
        if self.idle and self.party.task is not None:
            self.idle = False
            trio.lowlevel.reschedule(self.party.task)

    # The actor.

    @property
    def empty(self) -> bool:
        return not self._letters and not self._news

    @property
    def has_news(self) -> bool:
        return bool(self._news)

    async def gather(self, batch_max: int, deadline: float | None) -> list[Letter]:
        """The letters of a turn: none if news, the deadline or `wake` ended the wait. Yields in any case."""
        batch: list[Letter] = []
        self._take_letters(batch, batch_max)
        if batch or self._news or (deadline is not None and deadline <= trio.current_time()):
            await trio.lowlevel.checkpoint()
        else:
            await self._sleep(deadline)
        self._take_letters(batch, batch_max)
        return batch

    def take_news(self) -> list[tuple[str, News]]:
        news = [(sender, value) for (sender, _), value in self._news.items()]
        self._news.clear()
        return news

    async def _sleep(self, deadline: float | None) -> None:
        if deadline is not None and deadline < self._alarm_at:
            self._alarm_at = deadline
            self._alarm_set.set()
        self.idle = True
        await trio.lowlevel.wait_task_rescheduled(self._give_up_sleep)

    def _give_up_sleep(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self.idle = False
        return trio.lowlevel.Abort.SUCCEEDED

    async def keep_alarm(self) -> None:
        """Wake the actor at its deadline, until cancelled. An alarm that was set too early wakes it once without
        need."""
        while True:
            with trio.CancelScope(deadline=self._alarm_at):
                await self._alarm_set.wait()
            self._alarm_set = trio.Event()
            if trio.current_time() >= self._alarm_at:
                self._alarm_at = math.inf
                self.wake()

    def _take_letters(self, batch: list[Letter], batch_max: int) -> None:
        while self._letters and len(batch) < batch_max:
            letter = self._letters.popleft()
            self.unsettled[letter.reply] = None
            batch.append(letter)
        for letter in self._those_with_room_now() if self._beyond else ():
            self._beyond.pop(letter).set()

    def _those_with_room_now(self) -> list[Letter]:
        """The letters beyond the bound that are taken, or within it now: all but the last of the queue."""
        still_beyond = max(0, len(self._letters) - self.size_max)
        return list(self._beyond)[: len(self._beyond) - still_beyond]
