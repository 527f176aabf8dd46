"""What members over HTTP were handed, and what follows from it beside the rules for all members of groups.

The broker hands a member nothing that nobody asks for any more, and it hears of a member only what that one says:

- a message that nobody was ever handed comes with number 1, unless the answer to a poll may have been lost since
  the message was sent;
- a member that has said its last word is expelled when its session is over.

Both are judged only where nothing is wrong with the lines of the group and with the disk.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from goqueue.client.groups import Group
from goqueue.core.groups.member import RECONNECT_SECONDS
from tests.sim.clients.history import ClientHistory
from tests.sim.disk.history import Violation
from tests.sim.groups.history import GroupHistory, place_of
from tests.sim.groups.stories import ROUNDING_SECONDS, Held

NOTICE_SECONDS = 0.8
"""So long after a connection was closed or reset the broker knows of it, on a line that is not slow."""
CLOSING_SECONDS = 0.1
"""The same, where the client has closed it."""
EXPULSION_SECONDS = 5.0
"""So long after the end of its session a member is gone: a group that has just started is busy."""
SLACK_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class LostPoll:
    asked_at: float
    until: float
    """Then the broker knows that its client has gone."""
    lease_least: float

    def may_have_got(self, since: float, now: float) -> bool:
        """A message that was sent then, and whose lease has ended by now."""
        return since <= self.until and max(self.asked_at, since) + self.lease_least <= now + SLACK_SECONDS


@dataclass(slots=True)
class HttpHistory(GroupHistory):
    is_calm: bool = False
    """Nothing is wrong with the lines of its members, nor with the disk; and all of them speak HTTP."""
    _lost: list[LostPoll] = field(default_factory=list)
    _heard: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The last word of each member, and its session."""
    _started_at: float = 0.0

    def __post_init__(self) -> None:
        self._has_given_back = True  # what was taken for a client that has gone, or has no room, comes again

    def note_start(self) -> None:
        self._started_at = trio.current_time()

    def note_received(self, holder: str, messages: Sequence[Any], assignment: Collection[tuple[str, int]]) -> None:
        """What the one before it held may have been handed to a poll that was lost."""
        self._awaited.pop(holder, None)

    # Polls

    def note_lost(self, asked_at: float, lease_least: float, noticed_after: float = NOTICE_SECONDS) -> None:
        """A poll has ended, and nobody knows what it was answered. The leases of that last so long at least."""
        self._lost.append(LostPoll(asked_at, trio.current_time() + noticed_after, lease_least))

    def hand_polled(
        self, holder: str, member: str | None, messages: Sequence[Any], lease: tuple[float, float]
    ) -> list[Held]:
        """`lease`: when the poll was asked, and the visibility. It begins before the answer comes, and nobody
        renews it."""
        (asked_at, visibility), now = lease, trio.current_time()
        for message in messages:
            self._check_is_for_somebody(message)
        until = (asked_at + visibility - ROUNDING_SECONDS, now + visibility + SLACK_SECONDS)
        is_known = self.is_calm and self.counts(asked_at)
        row = self.hand_leased(holder, member, messages, until, is_prompt=is_known)
        if not self.counts(asked_at):
            for held in row:
                held.is_open, held.until_most = False, math.inf
        return row

    def _check_is_for_somebody(self, message: Any) -> None:
        sent, place, now = self.clients.sent.get(message.value), place_of(message), trio.current_time()
        if sent is None or message.attempt == 1 or self.stories[place].receipts or not self.is_calm:
            return
        if not any(each.may_have_got(sent.since, now) for each in self._lost):
            raise Violation(
                f"§6: {place}, sent at {sent.since:.3f}, comes for the first time, with number {message.attempt}: "
                "it was handed to nobody"
            )

    # Signs of life

    def is_heard(self, member: str, session: float) -> None:
        self._heard[member] = math.inf, session

    def says_no_more(self, member: str) -> None:
        if member in self._heard:
            self._heard[member] = trio.current_time() + NOTICE_SECONDS, self._heard[member][1]

    def look(self, view: Group, since: float) -> None:
        GroupHistory.look(self, view, since)
        for member in view.members if self.is_calm else ():
            last, session = self._heard.get(member.member_id, (math.inf, 0.0))
            gone_at = max(last + session, self._started_at + RECONNECT_SECONDS) + EXPULSION_SECONDS
            if since > gone_at:
                words = f"said its last word at {last:.3f}, and is a member at {since:.3f}"
                raise Violation(f"§5: {member.member_id} {words}")


@dataclass(slots=True)
class TimedHistory(ClientHistory):
    """G8: nothing that is delayed is seen early, nor after it was cancelled."""

    due: dict[bytes, float] = field(default_factory=dict)
    """When each may be seen."""
    cancelled: set[bytes] = field(default_factory=set)

    def see(self, message: Any) -> None:
        ClientHistory.see(self, message)
        if trio.current_time() < self.due.get(message.value, 0.0) - SLACK_SECONDS:
            raise Violation(f"G8: {message.value[:30]!r} is seen before {self.due[message.value]:.3f}")
        if message.value in self.cancelled:
            raise Violation(f"G8: {message.value[:30]!r} was cancelled, and is seen")
