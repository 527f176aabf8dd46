"""One member of a group: what it asked for, what it was told last, and until when it is taken for alive.

A member is alive while it is heard of, however long its handlers take. A consumer that is started again under its
id is another instance of the same member.
"""

from dataclasses import dataclass
from enum import Enum, auto
from reprlib import repr as shortened

from goqueue.core.groups.assignors import Assignment
from goqueue.core.groups.effects import Tell
from goqueue.core.groups.memory import RememberedMember
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.subscription import Subscription
from goqueue.errors import Fenced, InvalidConfig, InvalidName, StaleGeneration

MEMBER_ID_LENGTH_MAX = 256
SESSION_SECONDS = 30.0
SESSION_SECONDS_MIN = 1.0
SESSION_SECONDS_MAX = 1800.0
HEARTBEATS_PER_SESSION = 3
"""A heartbeat is answered early enough for so many in a session, however long it would wait."""
HEARTBEAT_SECONDS_MAX = 10.0
"""Limit of the wait of a heartbeat, whatever it asks for: the next one is a sign of life, too."""
RECONNECT_SECONDS = 5.0
"""How long a member without a connection stays in the group. A static member has its whole session, unless it
closed."""


class HeartbeatMeaning(Enum):
    CURRENT = auto()
    """The member knows the newest generation, and has nothing to confirm."""
    CONFIRMS = auto()
    """The member has let go of everything that the newest generation revoked."""
    BEHIND = auto()
    """The member knows an older generation: it is told the newest again."""


@dataclass(frozen=True, slots=True)
class MemberProfile:
    """A member as it asks to join."""

    id: str
    client: str
    subscription: Subscription
    settings: GroupSettings
    session_timeout: float = SESSION_SECONDS
    is_static: bool = False
    instance: int = 0
    """Tells apart the consumers that joined under this id."""
    address: str | None = None
    """The client's end of the connection over which it joined."""

    def check(self) -> None:
        check_member_id(self.id)
        if not SESSION_SECONDS_MIN <= self.session_timeout <= SESSION_SECONDS_MAX:
            limits = f"{SESSION_SECONDS_MIN:g} to {SESSION_SECONDS_MAX:g} s"
            fault = f"a session takes {limits}, not {self.session_timeout:g}"
            raise InvalidConfig(fault, faults=[fault])


@dataclass(slots=True)
class Member:
    profile: MemberProfile
    since: float
    last_heard: float
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
    had: Assignment = frozenset()
    """All partitions that it was told to have, since it joined: it may hold deliveries of them."""

    def resume(self, before: "Member") -> None:
        """Continue the membership of `before`; the new subscription and settings count."""
        self.since = before.since
        self.told, self.told_to_let_go = before.told, before.told_to_let_go
        self.told_generation, self.had = before.told_generation, before.had

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
    def expected(cls, remembered: RememberedMember, settings: GroupSettings, now: float) -> "Member":
        profile = MemberProfile(remembered.id, remembered.client, remembered.subscription, settings)
        return cls(profile, now, now, is_expected=True, lost_since=now)

    @property
    def id(self) -> str:
        return self.profile.id

    @property
    def is_absent(self) -> bool:
        """No consumer acts for it just now, and its membership is kept for a moment."""
        return self.is_away or self.is_expected

    @property
    def deadline(self) -> float:
        session_end = self.last_heard + self.profile.session_timeout
        if self.lost_since is None or (self.profile.is_static and not self.is_away):
            return session_end
        return min(session_end, self.lost_since + RECONNECT_SECONDS)

    def take(self, generation: int, assignment: Assignment, to_let_go: Assignment) -> Tell | None:
        """The news for the member, if any. Partitions that it is asked to let go of leave its assignment. To have
        let go is no news: it said so itself."""
        before, self.told, self.told_to_let_go = self.told, assignment, to_let_go
        if self.told_generation is not None and assignment == before:
            return None
        self.told_generation, self.had = generation, self.had | assignment | to_let_go
        return Tell(self.id, generation, assignment, (before | to_let_go) - assignment)

    def meaning_of(self, generation: int) -> HeartbeatMeaning:
        """A heartbeat speaks of this generation. `StaleGeneration` if the member was never told of it."""
        assert self.told_generation is not None, "a member is told something when it joins"
        if generation > self.told_generation:
            raise StaleGeneration(
                f"{shortened(self.id)} speaks of generation {generation}, but was told of {self.told_generation} "
                f"last; join again",
                generation=self.told_generation,
            )
        if generation < self.told_generation:
            return HeartbeatMeaning.BEHIND
        return HeartbeatMeaning.CONFIRMS if self.told_to_let_go else HeartbeatMeaning.CURRENT

    def tell_again(self) -> Tell:
        assert self.told_generation is not None, "a member is told something when it joins"
        return Tell(self.id, self.told_generation, self.told, self.told_to_let_go)

    def view(self, now: float) -> "MemberView":
        return MemberView(
            id=self.id,
            client=self.profile.client,
            since=self.since,
            subscription=self.profile.subscription,
            assignment=self.told,
            letting_go=self.told_to_let_go,
            heartbeat_age=now - self.last_heard,
            is_connected=self.lost_since is None,
            is_static=self.profile.is_static,
            has_closed=self.is_away,
            address=self.profile.address,
        )

    @property
    def why_expelled(self) -> str:
        if self.is_expected:
            return f"it did not come back within {RECONNECT_SECONDS:g} s of the start"
        if self.is_away:
            return f"it closed and did not come back within {RECONNECT_SECONDS:g} s"
        if self.lost_since is not None and not self.profile.is_static:
            return f"its connection closed and did not come back within {RECONNECT_SECONDS:g} s"
        return f"nothing was heard of it for {self.profile.session_timeout:g} s"


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
    address: str | None = None


def fenced(member_id: str) -> Fenced:
    """The error for a consumer that another one has replaced."""
    return Fenced(
        f"another consumer joined as {shortened(member_id)} and has its place now; let this one end, or give it a "
        "member_id of its own"
    )


def check_member_id(member_id: str) -> None:
    if not 1 <= len(member_id) <= MEMBER_ID_LENGTH_MAX:
        raise InvalidName(f"a member id has 1 to {MEMBER_ID_LENGTH_MAX} characters, not {len(member_id)}")
