"""One member of a group: what it asked for, what it was told last, and until when it is taken for alive.

A member is alive while it is heard of, however long its handlers take. A consumer that is started again under its
id is another instance of the same member.
"""

from dataclasses import dataclass
from reprlib import repr as shortened

from goqueue.core.groups.assignors import Assignment
from goqueue.core.groups.decisions import MemberJoined
from goqueue.core.groups.effects import Tell
from goqueue.core.groups.memory import RememberedMember
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.subscription import Subscription
from goqueue.errors import Fenced, InvalidConfig, InvalidName

MEMBER_ID_LENGTH_MAX = 256
SESSION_SECONDS = 30.0
SESSION_SECONDS_MIN = 1.0
SESSION_SECONDS_MAX = 1800.0
RECONNECT_SECONDS = 5.0
"""How long a member without a connection stays in the group. A static member has its whole session, unless it
closed."""


@dataclass(slots=True)
class Member:
    id: str
    client: str
    subscription: Subscription
    asked: GroupSettings
    session_timeout: float
    is_static: bool
    since: float
    last_heard: float
    instance: int = 0
    """Tells apart the consumers that joined under this id."""
    is_away: bool = False
    """It closed in good order, and its membership is kept for a moment."""
    is_expected: bool = False
    """It was a member before the broker started, and has not come back yet. Its partitions wait for it."""
    lost_since: float | None = None
    """When its connection closed, if it has not come back."""
    told: Assignment = frozenset()
    told_to_let_go: Assignment = frozenset()
    told_generation: int | None = None
    """The generation of the last assignment that it was told; None before the first."""

    def resume(self, before: "Member") -> None:
        """Continue the membership of `before`; the new subscription and settings count."""
        self.since = before.since
        self.told, self.told_to_let_go = before.told, before.told_to_let_go
        self.told_generation = before.told_generation

    def heard(self, now: float) -> None:
        self.last_heard = now
        self.lost_since = None

    def connection_lost(self, now: float) -> None:
        if self.lost_since is None:
            self.lost_since = now

    def close(self, now: float) -> None:
        """Its membership is kept as after a lost connection; to close again does not prolong that."""
        if not self.is_away:
            self.last_heard = self.lost_since = now
            self.is_away = True

    @classmethod
    def joined(cls, entry: MemberJoined, now: float) -> "Member":
        return cls(
            entry.member,
            entry.client,
            entry.subscription,
            entry.settings,
            entry.session_timeout,
            entry.is_static,
            now,
            now,
            entry.instance,
        )

    @classmethod
    def expected(cls, remembered: RememberedMember, asked: GroupSettings, now: float) -> "Member":
        member = cls(
            remembered.id, remembered.client, remembered.subscription, asked, SESSION_SECONDS, False, now, now
        )
        member.is_expected, member.lost_since = True, now
        return member

    @property
    def is_absent(self) -> bool:
        """No consumer acts for it just now, and its membership is kept for a moment."""
        return self.is_away or self.is_expected

    @property
    def deadline(self) -> float:
        session_end = self.last_heard + self.session_timeout
        if self.lost_since is None or (self.is_static and not self.is_away):
            return session_end
        return min(session_end, self.lost_since + RECONNECT_SECONDS)

    def is_news(self, assignment: Assignment) -> bool:
        """Whether the member must be told. Partitions that it is asked to let go of leave its assignment. To have
        let go is no news: it said so itself."""
        return self.told_generation is None or assignment != self.told

    def tell_again(self) -> Tell:
        assert self.told_generation is not None, "a member is told something when it joins"
        return Tell(self.id, self.told_generation, self.told, self.told_to_let_go)

    def view(self, now: float) -> "MemberView":
        return MemberView(
            id=self.id,
            client=self.client,
            since=self.since,
            subscription=self.subscription,
            assignment=self.told,
            letting_go=self.told_to_let_go,
            heartbeat_age=now - self.last_heard,
            is_connected=self.lost_since is None,
            is_static=self.is_static,
            has_closed=self.is_away,
        )

    @property
    def why_expelled(self) -> str:
        if self.is_expected:
            return f"it did not come back within {RECONNECT_SECONDS:g} s of the start"
        if self.is_away:
            return f"it closed and did not come back within {RECONNECT_SECONDS:g} s"
        if self.lost_since is not None and not self.is_static:
            return f"its connection closed and did not come back within {RECONNECT_SECONDS:g} s"
        return f"nothing was heard of it for {self.session_timeout:g} s"


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member as people are shown it. Times are monotonic seconds."""

    id: str
    client: str
    since: float
    subscription: Subscription
    assignment: Assignment
    letting_go: Assignment
    heartbeat_age: float
    is_connected: bool
    is_static: bool
    has_closed: bool = False
    """It closed, and its membership is kept for a moment."""


def fenced(member_id: str) -> Fenced:
    """The error for a consumer that another one has replaced."""
    return Fenced(
        f"another consumer joined as {shortened(member_id)} and has its place now; let this one end, or give it a "
        "member_id of its own"
    )


def check_member_id(member_id: str) -> None:
    if not 1 <= len(member_id) <= MEMBER_ID_LENGTH_MAX:
        raise InvalidName(f"a member id has 1 to {MEMBER_ID_LENGTH_MAX} characters, not {len(member_id)}")


def check_session_timeout(seconds: float) -> None:
    if not SESSION_SECONDS_MIN <= seconds <= SESSION_SECONDS_MAX:
        fault = f"a session takes {SESSION_SECONDS_MIN:g} to {SESSION_SECONDS_MAX:g} s, not {seconds:g}"
        raise InvalidConfig(fault, faults=[fault])
