"""What groups show: who is a member of each, and through the boards of the partitions how far it is.

A description sends no message, unless the group is at work just then: neither it nor its partitions have a turn.
"""

from collections.abc import Callable, Iterator, Mapping

import trio

from goqueue.actors.delivery.board import LedgerBoard
from goqueue.actors.groups.attachments import Attachments
from goqueue.actors.groups.description import MembersStanding, describe_group
from goqueue.actors.groups.requests import AwaitRest
from goqueue.actors.groups.why import gather_facts
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.requests import TopicOutline
from goqueue.core.groups import rebalance
from goqueue.core.groups.views import DescribedGroup
from goqueue.core.why.facts import GroupFacts
from goqueue.errors import UnknownFormat, UnknownGroup
from goqueue.storage.slices import Slices

AT_WORK_SECONDS_MAX = 2.0


class GroupBoard:
    """What one group shows."""

    def __init__(
        self,
        name: str,
        core: rebalance.Group,
        attachments: Attachments,
        topics: Callable[[], Mapping[str, TopicOutline]],
    ) -> None:
        """`topics` are all topics of the broker."""
        self._name = name
        self._core = core
        self._attachments = attachments
        self._topics = topics

    async def describe(self, slices: Slices) -> DescribedGroup:
        return await describe_group(self._standing(), list(self._attachments), slices)

    async def facts(self, member: str | None = None) -> GroupFacts:
        """What explains why nothing is delivered, to one member or to all of them."""
        facts = await gather_facts(self._standing(), list(self._attachments))
        return facts if member is None else facts.of(member)

    def _standing(self) -> MembersStanding:
        now = trio.current_time()
        return MembersStanding(self._name, self._core.view(now), now, self._core.waits_since, self._topics())

    @property
    def members(self) -> int:
        """The number of those for which a consumer acts."""
        return self._core.present

    @property
    def generation(self) -> int:
        return self._core.generation

    @property
    def places(self) -> int:
        """The number of partitions that it reads."""
        return len(self._attachments)

    def lanes(self) -> Iterator[LedgerBoard]:
        """The partitions where lanes are shared: none for a stream, which takes messages as they lie."""
        settings = self._core.settings
        if settings is not None and settings.mode == "queue":
            for attachment in self._attachments:
                if (board := attachment.board) is not None:
                    yield board


class GroupsBoard:
    """Which groups there are."""

    def __init__(self, refs: Mapping[str, ActorRef], why_not: str) -> None:
        """`why_not`: why they cannot be read; empty if they can."""
        self._refs = refs
        self._why_not = why_not

    def refs(self) -> dict[str, ActorRef]:
        """All groups, in order of name."""
        if self._why_not:
            raise UnknownFormat(self._why_not)
        return {name: self._refs[name] for name in sorted(self._refs)}

    def find(self, name: str) -> ActorRef:
        if self._why_not:
            raise UnknownFormat(self._why_not)
        ref = self._refs.get(name)
        if ref is None:
            raise UnknownGroup(f"there is no group {name!r}; the first consumer that joins makes it")
        return ref


async def groups_board(groups: ActorRef) -> GroupsBoard:
    """Which groups there are, as soon as that is known."""
    board = await groups.shown()
    assert isinstance(board, GroupsBoard), "it is shown before they are live"
    return board


async def group_board(group: ActorRef) -> GroupBoard:
    """What a group shows. One that is being started is waited for, and one that is at work too: in the middle of a
    join it would show neither its partitions nor a lag."""
    board = await group.shown()
    if not group.is_idle:
        with trio.move_on_after(AT_WORK_SECONDS_MAX):
            await group.call(AwaitRest())
        board = await group.shown()
    assert isinstance(board, GroupBoard), "a group shows this before it is live"
    return board


async def found_board(groups: ActorRef, name: str) -> GroupBoard:
    return await group_board((await groups_board(groups)).find(name))
