"""Waiters: members that wait at a partition for messages. Each is woken once, and then takes.

In a shared group many may wait for the same message. They are woken one at a time, first the one that was served
longest ago: when it has taken, and there is more, the next one is woken. So a message wakes one member and not a
hundred, and all are served in turn. A woken member may not come, as its connection ended or it found enough
elsewhere: then, after a moment, the next one is woken.
"""

from collections.abc import Callable, Iterable

import trio

from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import AwaitDeliverable
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.parts import PartHost
from goqueue.core.deadlines import earlier
from goqueue.core.ledger.views import Plan
from goqueue.core.waiting.members import MemberWaits
from goqueue.storage.log.log import Log

TURN_SECONDS = 0.02
"""The time for a woken member to take; then the next one is woken."""


class WaitingMembers:
    def __init__(self) -> None:
        self._waits: MemberWaits[Reply[None]] = MemberWaits()
        self._turns: dict[str, float] = {}
        """By shared group: until when the woken member is waited for."""

    def __len__(self) -> int:
        return len(self._waits)

    def __contains__(self, group: str) -> bool:
        return group in self._waits

    def groups(self) -> list[str]:
        return self._waits.groups()

    def add(self, message: AwaitDeliverable, reply: Reply[None]) -> None:
        _resolve(self._waits.forget(message.group, lambda other: not other.wanted))  # else the mailbox keeps them
        self._waits.wait(message.group, message.member, reply, message.deadline, message.served_at)

    def let_go(self, group: str, chosen: Callable[[str], bool] = lambda _: True) -> None:
        """Wake the chosen members of a group."""
        _resolve(self._waits.of(group, chosen))

    def let_one_go(self, group: str, chosen: Callable[[str], bool], now: float) -> bool:
        """Wake the member whose turn it is, if there is one. Cancelled requests are skipped."""
        first = self._waits.first(group, lambda member, reply: reply.wanted and chosen(member))
        if first is not None:
            self._turns[group] = now + TURN_SECONDS
            first.resolve(None)
        return first is not None

    def note_came(self, group: str) -> None:
        self._turns.pop(group, None)

    def missed_turns(self, now: float) -> list[str]:
        """Groups whose woken member did not come; each is returned once."""
        missed = [group for group, until in self._turns.items() if until <= now]
        for group in missed:
            del self._turns[group]
        return missed

    def let_all_go(self) -> None:
        _resolve(self._waits.all())

    def let_go_late(self, now: float) -> None:
        """Wake the members whose deadline has passed."""
        _resolve(self._waits.expired(now))

    def next_deadline(self) -> float | None:
        return earlier(self._waits.next_deadline(), min(self._turns.values(), default=None))


class Waiters:
    """The part of a partition that keeps its waiters."""

    def __init__(self, ledgers: Ledgers, log: Log, host: PartHost, note_awaited: Callable[[], None]) -> None:
        """`note_awaited`: a member waits for messages that are written and not durable."""
        self._ledgers = ledgers
        self._log = log
        self._host = host
        self._note_awaited = note_awaited
        self.waiting = WaitingMembers()

    @defers(AwaitDeliverable)
    async def await_deliverable(self, message: AwaitDeliverable, reply: Reply[None]) -> None:
        here, now = self._ledgers.find(message.group), trio.current_time()
        may_wait = not here.is_stream and here.tenure.is_held_by(message.member, message.instance)
        if not may_wait or message.deadline <= now or self._has_for(here, message.member):
            reply.resolve(None)
        else:
            here.askers.note_wait(message.member, now, message.deadline, reply)
            self.waiting.add(message, reply)
            self._note_awaited()

    def has(self, here: GroupHere, plan: Plan) -> bool:
        """Perhaps: the lanes of the messages are known only after a read."""
        return bool(plan.again) or (plan.fresh_max > 0 and here.ledger.next_fresh < self._log.high_watermark)

    def _has_for(self, here: GroupHere, member: str) -> bool:
        return self.has(here, here.ledger.plan(trio.current_time(), member, 1, is_busy=False))

    def watermark_rose(self) -> None:
        for group in self.waiting.groups():
            self.call_next(self._ledgers.find(group))

    def call_next(self, here: GroupHere) -> None:
        """Wake the members of the group that may find messages; in a shared group, the next one."""
        if here.name not in self.waiting:
            return
        if not here.tenure.is_shared:
            self.waiting.let_go(here.name, lambda member: self._has_for(here, member))
        elif self._has_some(here) and self.waiting.let_one_go(
            here.name, lambda member: self._has_for(here, member), trio.current_time()
        ):
            self._host.wake()  # there is one more deadline

    def _has_some(self, here: GroupHere) -> bool:
        """Whether there may be messages, perhaps not for every member."""
        return here.ledger.next_fresh < self._log.high_watermark or here.ledger.has_ready(trio.current_time())

    def tick(self, now: float) -> None:
        self.waiting.let_go_late(now)
        for group in self.waiting.missed_turns(now):
            if group in self._ledgers.groups:
                self.call_next(self._ledgers.groups[group])


def _resolve(replies: Iterable[Reply[None]]) -> None:
    for reply in replies:
        reply.resolve(None)
