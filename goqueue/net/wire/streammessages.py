"""The messages of groups in stream mode: members fetch as readers do, and commit how far they have come.

Joining, heartbeats and leaving are those of all groups, in groupmessages.py.
"""

from typing import Annotated, NamedTuple

from goqueue.net.wire.fields import U32, U63, Many, Name, Uuid
from goqueue.net.wire.groups import ReceivePartition
from goqueue.net.wire.messages import Error


class CommitPartition(NamedTuple):
    """Everything below `offset` is done."""

    topic: Uuid
    partition: U32
    offset: U63


class CommitOffsets(NamedTuple):
    """By the member that owns the partitions in this generation, or without a member to a group that has none."""

    group: Name
    member: Name | None
    generation: U63
    partitions: Annotated[tuple[CommitPartition, ...], Many]
    instance: U63 = 0


class CommittedPartition(NamedTuple):
    error: Error | None


class OffsetsCommitted(NamedTuple):
    """One entry for each partition of the request, in its order."""

    partitions: Annotated[tuple[CommittedPartition, ...], Many]


class AskOffsets(NamedTuple):
    """Where the group goes on with these partitions."""

    group: Name
    partitions: Annotated[tuple[ReceivePartition, ...], Many]


class GroupOffset(NamedTuple):
    """What was committed last, or where the group began."""

    error: Error | None
    offset: U63
    resets: U63 = 0
    """How often the group was reset here: a member that knows of another number begins at `offset` again."""


class GroupOffsets(NamedTuple):
    """One entry for each partition of the request, in its order."""

    partitions: Annotated[tuple[GroupOffset, ...], Many]
