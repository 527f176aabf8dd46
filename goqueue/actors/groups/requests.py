"""The requests of a group, and of the groups of a node."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from goqueue.actors.runtime.messages import Request
from goqueue.actors.runtime.ref import ActorRef
from goqueue.core.groups.subscription import Subscription
from goqueue.core.groups.views import MemberState, MovedOffset
from goqueue.errors import GoQueueError
from goqueue.types import Offset

# To a group.


@dataclass(frozen=True, slots=True)
class Join(Request[MemberState]):
    member: str
    client: str
    subscription: Subscription
    settings: dict[str, Any]
    start: str
    session_timeout: float
    is_static: bool
    connection: int
    """When this connection ends the member is lost, unless it came back on another."""
    instance: int = 0
    defaults: dict[str, Any] = field(default_factory=dict)
    """Settings for a group that has none yet."""
    address: str | None = None
    """The client's end of the connection."""


@dataclass(frozen=True, slots=True)
class AwaitMembership(Request[MemberState]):
    """A heartbeat: answered when the assignment differs from that of `generation`, or at `deadline`."""

    member: str
    generation: int
    deadline: float
    connection: int
    instance: int = 0


@dataclass(frozen=True, slots=True)
class Leave(Request[None]):
    member: str
    instance: int = 0
    keeps_place: bool = False
    """A static member keeps its partitions for a session."""


@dataclass(frozen=True, slots=True)
class MemberLost(Request[None]):
    """The connection ended without a `Leave`; sent as a cast."""

    member: str
    connection: int


@dataclass(frozen=True, slots=True)
class CheckEmpty(Request[None]):
    """`GroupConflict` while the group has members that are not away."""


@dataclass(frozen=True, slots=True)
class Alter(Request[None]):
    settings: dict[str, Any]
    force: bool


@dataclass(frozen=True, slots=True)
class ResetOffsets(Request[tuple[MovedOffset, ...]]):
    topic: str | None
    partition: int | None
    start: str
    dry_run: bool
    force: bool


class OutsideCommit(NamedTuple):
    topic: UUID
    partition: int
    offset: Offset


@dataclass(frozen=True, slots=True)
class CommitFromOutside(Request[tuple[GoQueueError | None, ...]]):
    """Commits of readers that are no members; answered with the outcome of each. `GroupConflict` while there are
    members."""

    commits: tuple[OutsideCommit, ...]


# To the groups of a node.


@dataclass(frozen=True, slots=True)
class AwaitRest(Request[None]):
    """Answered when the group has done what it was asked before."""


@dataclass(frozen=True, slots=True)
class FindGroup(Request[ActorRef]):
    """The group of this name. With `create` it is created if need be, else `UnknownGroup`."""

    name: str
    create: bool = False


@dataclass(frozen=True, slots=True)
class RemoveGroup(Request[None]):
    """Delete a group. `GroupConflict` while it has members."""

    name: str
