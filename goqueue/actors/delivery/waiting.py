"""Waiters: members that wait at a partition for messages. Each is woken once, and then takes.

In a shared group many may wait for the same message. They are woken one at a time, first the one that was served
longest ago: when it has taken, and there is more, the next one is woken. So a message wakes one member and not a
hundred, and all are served in turn. A woken member may not come, as its connection ended or it found enough
elsewhere: then, after a moment, the next one is woken.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import trio

from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import AwaitDeliverable
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.parts import PartHost
from goqueue.core.deadlines import earliest
from goqueue.core.ledger.views import Plan
from goqueue.core.waiting.members import MemberWaits
from goqueue.storage.log.log import Log

TURN_SECONDS = 0.02
"""The time for a woken member to take; then the next one is woken."""


@dataclass(eq=False, slots=True)
class Waiters:
    """The part of a partition that keeps its waiters."""

    ledgers: Ledgers
    log: Log
    host: PartHost
    note_awaited: Callable[[], None]
    """A member waits for messages that are written and not durable."""
    waits: MemberWaits[Reply[None]] = field(default_factory=MemberWaits)
    turns: dict[str, float] = field(default_factory=dict)
    """By shared group: until when the woken member is waited for."""

    def __len__(self) -> int:
        return len(self.waits)

    @defers(AwaitDeliverable)
    async def await_deliverable(self, message: AwaitDeliverable, reply: Reply[None]) -> None:
        here, now = self.ledgers.find(message.group), trio.current_time()
        may_wait = not here.is_stream and here.tenure.is_held_by(message.member, message.instance)
        if not may_wait or message.deadline <= now or self._has_for(here, message.member):
            reply.resolve(None)
        else:
            here.askers.note_wait(message.member, now, message.deadline, reply)
            _resolve(self.waits.of(here.name, lambda _, other: not other.wanted))  # else the mailbox keeps them
            self.waits.wait(here.name, message.member, reply, message.deadline, message.served_at)
            self.note_awaited()

    def has(self, here: GroupHere, plan: Plan) -> bool:
        """Perhaps: the lanes of the messages are known only after a read."""
        return bool(plan.again) or (plan.fresh_max > 0 and here.ledger.next_fresh < self.log.high_watermark)

    def _has_for(self, here: GroupHere, member: str) -> bool:
        return self.has(here, here.ledger.plan(trio.current_time(), member, 1, is_busy=False))

    # Woken

    def watermark_rose(self) -> None:
        for group in self.waits.groups():
            self.call_next(self.ledgers.find(group))

    def call_next(self, here: GroupHere) -> None:
        """Wake the members of the group that may find messages; in a shared group, the next one. Cancelled requests
        are skipped."""
        if here.name not in self.waits:
            return
        if not here.tenure.is_shared:
            _resolve(self.waits.of(here.name, lambda member, _: self._has_for(here, member)))
        elif self._has_some(here):
            first = self.waits.first(here.name, lambda member, reply: reply.wanted and self._has_for(here, member))
            if first is not None:
                self.turns[here.name] = trio.current_time() + TURN_SECONDS
                first.resolve(None)
                self.host.wake()  # there is one more deadline

    def _has_some(self, here: GroupHere) -> bool:
        """Whether there may be messages, perhaps not for every member."""
        return here.ledger.next_fresh < self.log.high_watermark or here.ledger.has_ready(trio.current_time())

    def note_came(self, group: str) -> None:
        self.turns.pop(group, None)

    def let_go(self, group: str, member: str | None = None) -> None:
        """Wake the waiters of a group, or of one member."""
        _resolve(self.waits.of(group, lambda waiter, _: member is None or waiter == member))

    def let_all_go(self) -> None:
        _resolve(self.waits.all())

    # Time

    def next_deadline(self) -> float | None:
        deadline = self.waits.next_deadline()
        return earliest(deadline, *self.turns.values()) if self.turns else deadline

    def tick(self, now: float) -> None:
        """Wake the members whose deadline has passed, and the next ones of groups whose woken member did not
        come."""
        _resolve(self.waits.expired(now))
        for group in [group for group, until in self.turns.items() if until <= now]:
            del self.turns[group]
            if group in self.ledgers.groups:
                self.call_next(self.ledgers.groups[group])


def _resolve(replies: Iterable[Reply[None]]) -> None:
    for reply in replies:
        reply.resolve(None)
