"""The mailbox: takes the messages for an actor. It outlives the actor, so that a ref outlives a restart.

Letters wait in a bounded channel, news in slots. Three rules keep callers and senders from hanging:

- Closing a channel loses its contents. So it is never closed: `abandon` empties the channel (senders that wait for
  room included) and tells every caller that the actor died, in one step.
- A reply is in the list of the unsettled from the moment its letter is taken until it is settled. However an actor
  ends, that list and the channel together name every caller that still waits.
- News never takes room in the channel. An actor that sleeps is woken by whatever comes, and one that works looks at
  its letters and its news before it sleeps again.

Deadlines are kept by an alarm that goes on from one sleep to the next: most actors sleep a thousand times until the
same deadline, and a cancel scope for each sleep would cost as much as the letter that ends it.
"""

import math
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

    depth: int = 0
    """Letters not yet taken: in the mailbox, or with a caller that waits for room in it."""
    depth_highest: int = 0
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
        self._send, self._receive = trio.open_memory_channel[Letter](size_max)
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
        self._take_letters([], self.counts.depth)
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
            if self._moved is None:
                self._moved = trio.Event()
            await self._moved.wait()
        return self.board

    def _death(self, how: str, cause: BaseException | None) -> ActorDied:
        death = ActorDied(f"{self.party.name} {how}", actor=self.party.name)
        death.__cause__ = cause
        return death

    # Senders.

    async def post(self, letter: Letter) -> None:
        """Put a letter in, waiting for room."""
        self._check_accepts()
        self._count_in()
        try:
            self._send.send_nowait(letter)
        except trio.WouldBlock:
            await self._post_when_room(letter)
        else:
            self.wake()

    async def _post_when_room(self, letter: Letter) -> None:
        try:
            await self._send.send(letter)
        except BaseException:
            self.counts.depth -= 1  # cancelled: it was never sent
            raise

    def post_at_once(self, letter: Letter) -> None:
        if not self.post_if_room(letter):
            raise MailboxFull(f"the mailbox of {self.party.name} holds {self.size_max} letters; try again later")

    def post_if_room(self, letter: Letter) -> bool:
        if not self._accepts:
            self._check_accepts()
        try:
            self._send.send_nowait(letter)
        except trio.WouldBlock:
            return False
        self._count_in()
        if self.idle:
            self.wake()
        return True

    def post_news(self, sender: str, news: News) -> None:
        if self.state is MailboxState.DOWN:
            return
        self._news[sender, type(news)] = news
        self.wake()

    def wake(self) -> None:
        """Make the actor look at its letters, deadline, news and state again."""
        if self.idle:
            self.idle = False
            assert self.party.task is not None, "it sleeps"
            trio.lowlevel.reschedule(self.party.task)

    def _check_accepts(self) -> None:
        if not self._accepts:
            raise self._death(f"is {self.state.value}", None)

    def _count_in(self) -> None:
        counts = self.counts
        counts.depth += 1
        if counts.depth > counts.depth_highest:
            counts.depth_highest = counts.depth

    # The actor.

    @property
    def empty(self) -> bool:
        return self.counts.depth == 0 and not self._news

    @property
    def has_news(self) -> bool:
        return bool(self._news)

    async def gather(self, batch_max: int, deadline: float | None, now: float) -> list[Letter]:
        """The letters of a turn: none if news, the deadline or `wake` ended the wait. Yields in any case.

        `now` may be a moment ago: the alarm rings for a deadline that has passed since.
        """
        if self.counts.depth or self._news or (deadline is not None and deadline <= now):
            await trio.lowlevel.checkpoint()
        else:
            if deadline is not None and deadline < self._alarm_at:
                self._alarm_at = deadline
                self._alarm_set.set()
            self.idle = True
            await trio.lowlevel.wait_task_rescheduled(self._rise)
        batch: list[Letter] = []
        self._take_letters(batch, batch_max)
        return batch

    def take_news(self) -> list[tuple[str, News]]:
        news = [(sender, value) for (sender, _), value in self._news.items()]
        self._news.clear()
        return news

    def _rise(self, _: object) -> trio.lowlevel.Abort:
        """The actor is cancelled while it sleeps."""
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
        counts, receive, unsettled = self.counts, self._receive.receive_nowait, self.unsettled
        while counts.depth and len(batch) < batch_max:
            try:
                letter = receive()
            except trio.WouldBlock:
                return  # the depth counts a sender that was cancelled and does not know it yet
            counts.depth -= 1
            unsettled[letter.reply] = None
            batch.append(letter)
