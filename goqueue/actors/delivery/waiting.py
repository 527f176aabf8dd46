"""Members that wait at a partition until there is something for them: each is let go once, and then looks.

In a shared group many may wait for the same message. They are let go one at a time, that one first which was served
longest ago: when somebody has taken, and there is more, the next one is let go. So a message wakes one member and
not a hundred, and all are served in turn. One that was let go may not come, as its connection ended or it found
enough elsewhere: then, after a moment, it is the next one's turn.
"""

from collections.abc import Callable, Iterable

import trio

from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import AwaitDeliverable
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.handlers import defers
from goqueue.actors.runtime.messages import Reply
from goqueue.core.ledger.views import Plan
from goqueue.core.waiting.members import MemberWaits
from goqueue.storage.log.log import Log

TURN_SECONDS = 0.02
"""So long who was let go has to take before the next one is."""


class WaitingMembers:
    def __init__(self) -> None:
        self._waits: MemberWaits[Reply[None]] = MemberWaits()
        self._turns: dict[str, float] = {}
        """Until when somebody of a shared group who was let go is waited for."""

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
        """Those of a group whose member is chosen."""
        _resolve(self._waits.of(group, chosen))

    def let_one_go(self, group: str, chosen: Callable[[str], bool], now: float) -> bool:
        """The one whose turn it is, if there is one. Who has gone without a word is passed over."""
        first = self._waits.first(group, lambda member, reply: reply.wanted and chosen(member))
        if first is not None:
            self._turns[group] = now + TURN_SECONDS
            first.resolve(None)
        return first is not None

    def note_came(self, group: str) -> None:
        self._turns.pop(group, None)

    def missed_turns(self, now: float) -> list[str]:
        """Groups in which nobody came; they are named once."""
        missed = [group for group, until in self._turns.items() if until <= now]
        for group in missed:
            del self._turns[group]
        return missed

    def let_all_go(self) -> None:
        _resolve(self._waits.all())

    def let_go_late(self, now: float) -> None:
        """Those whose time is up."""
        _resolve(self._waits.expired(now))

    def next_deadline(self) -> float | None:
        waits, turns = self._waits.next_deadline(), min(self._turns.values(), default=None)
        return waits if turns is None else turns if waits is None else min(waits, turns)


class DeliveryWaiting(Actor):
    """The part of a partition at which members wait."""

    ledgers: Ledgers

    def __init__(self) -> None:
        self.waits = WaitingMembers()

    @property
    def log(self) -> Log:
        raise NotImplementedError

    def note_awaited(self) -> None:
        """Somebody waits for what is written and not durable."""
        raise NotImplementedError

    @defers(AwaitDeliverable)
    async def await_deliverable(self, message: AwaitDeliverable, reply: Reply[None]) -> None:
        here, now = self.ledgers.find(message.group), trio.current_time()
        may_wait = here.may_wait(message.member, message.instance)
        if not may_wait or message.deadline <= now or self._has_for(here, message.member):
            reply.resolve(None)
        else:
            here.askers.note_wait(message.member, now, message.deadline, reply)
            self.waits.add(message, reply)
            self.note_awaited()

    def has(self, here: GroupHere, plan: Plan) -> bool:
        """Perhaps: nobody knows which lane it is in before it is looked for."""
        return bool(plan.again) or (plan.fresh_max > 0 and here.ledger.next_fresh < self.log.high_watermark)

    def _has_for(self, here: GroupHere, member: str) -> bool:
        return self.has(here, here.ledger.plan(trio.current_time(), member, 1, is_busy=False))

    @property
    def has_waiting_members(self) -> bool:
        return bool(len(self.waits))

    def show_to_members(self) -> None:
        """There is more to see."""
        for group in self.waits.groups():
            self.call_next(self.ledgers.find(group))

    def call_next(self, here: GroupHere) -> None:
        """Whoever of the group may find something; of a shared one, who is next."""
        if here.name not in self.waits:
            return
        if not here.is_shared:
            self.waits.let_go(here.name, lambda member: self._has_for(here, member))
        elif self._has_some(here) and self.waits.let_one_go(
            here.name, lambda member: self._has_for(here, member), trio.current_time()
        ):
            self.wake()  # there is a deadline more

    def _has_some(self, here: GroupHere) -> bool:
        """Perhaps not for everybody."""
        return here.ledger.next_fresh < self.log.high_watermark or here.ledger.has_ready(trio.current_time())

    def dismiss_members(self) -> None:
        """They look again and find nothing: a stop does not wait for them."""
        self.waits.let_all_go()

    def tick_waits(self, now: float) -> None:
        self.waits.let_go_late(now)
        for group in self.waits.missed_turns(now):
            if group in self.ledgers.groups:
                self.call_next(self.ledgers.groups[group])


def _resolve(replies: Iterable[Reply[None]]) -> None:
    for reply in replies:
        reply.resolve(None)
