"""When the members of a group last asked a partition for messages: it shows consumers that no longer ask."""

from typing import Any, NamedTuple

from goqueue.actors.runtime.messages import Reply

MEMBERS_MAX = 1_024
"""Limit of remembered members: those that asked last. A shared group may have more."""


class _Asked(NamedTuple):
    at: float
    until: float
    reply: Reply[Any] | None
    """The reply to a member that waits until then."""

    def ago(self, now: float) -> float:
        """A wait that ended early counts from its beginning, as its end is not known."""
        if self.reply is None or not self.reply.wanted or (self.reply.settled and now < self.until):
            return max(0.0, now - self.at)
        return max(0.0, now - self.until)


class Askers:
    def __init__(self) -> None:
        self._asked: dict[str, _Asked] = {}

    def note(self, member: str, now: float) -> None:
        self._note(member, _Asked(now, now, None))

    def note_wait(self, member: str, now: float, until: float, reply: Reply[Any]) -> None:
        self._note(member, _Asked(now, until, reply))

    def _note(self, member: str, asked: _Asked) -> None:
        self._asked.pop(member, None)
        self._asked[member] = asked
        if len(self._asked) > MEMBERS_MAX:
            del self._asked[next(iter(self._asked))]

    def forget(self, member: str) -> None:
        self._asked.pop(member, None)

    def ago(self, now: float) -> dict[str, float]:
        """Seconds by member; 0 for a waiter."""
        return {member: asked.ago(now) for member, asked in self._asked.items()}
