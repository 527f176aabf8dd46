"""The groups of a node: found by name, created by the first join, deleted only without members.

    metadata         which there are, durably
    groupactors      a supervisor; one child for each group, restarted alone
    groups           this

A new group, or a deletion, is in the register before the request is answered. Partitions that could not be told of
a deletion are told at the next start. A group that is created again has another id: it begins anew in any case.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from uuid import UUID

from goqueue.actors.delivery.requests import ForgetGroup
from goqueue.actors.groups.adoption import Adopter
from goqueue.actors.groups.attachments import ANSWER_SECONDS_MAX
from goqueue.actors.groups.board import GroupsBoard
from goqueue.actors.groups.group import Group
from goqueue.actors.groups.offsetsfile import remove_offsets
from goqueue.actors.groups.rebalances import RebalanceTimes
from goqueue.actors.groups.requests import CheckEmpty, FindGroup, RemoveGroup
from goqueue.actors.metadata.requests import NoteForgotten, NoteMade, NoteRemoved, ReadLeaving, ReadRegister
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.concurrently import call_within, with_each
from goqueue.actors.runtime.handlers import answers
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.supervisor import AddChildren, RemoveChildren
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.actors.topics.requests import FindPartition, OutlineTopics
from goqueue.core.groups.registry import GROUP_ID_BITS, KnownGroup
from goqueue.core.names import REDRIVE
from goqueue.environment import Environment
from goqueue.errors import (
    DiskFull,
    GoQueueError,
    StorageError,
    UnknownFormat,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.storage.log.volume import Volume

logger = logging.getLogger("goqueue.groups")

STOP_SECONDS_MAX = 5.0


class Groups(Actor):
    def __init__(
        self,
        environment: Environment,
        volume: Volume,
        data: str,
        *,
        topics: ActorRef,
        register: ActorRef,
        supervisor: ActorRef,
        counts: GroupCounts | None = None,
    ) -> None:
        self._environment = environment
        self._volume = volume
        self._data = data
        self._topics = topics
        self._register = register
        self._supervisor = supervisor
        self._counts = counts or GroupCounts()
        self._adopter = Adopter(topics, register, environment.clock, self._counts)
        self._refs: dict[str, ActorRef] = {}
        self._why_not = ""
        """Why the register cannot be read; empty if it can."""

    async def start(self) -> None:
        try:
            await self._start_groups()
        except UnknownFormat as error:
            self._why_not = error.message
        self._counts.of.complete(self._refs)
        self.show(GroupsBoard(self._refs, self._why_not))

    def close(self) -> None:
        self.show(None)

    async def _start_groups(self) -> None:
        for leaving in await self._register.call(ReadLeaving()):
            await self._make_partitions_forget(leaving)
        await self._adopter.run()  # before those that seem unused are removed
        known = [group for group in await self._register.call(ReadRegister()) if group.name != REDRIVE]
        for unused in [group for group in known if group.settings is None]:
            with suppress(DiskFull):  # the next start removes it
                await self._register.call(NoteRemoved(unused.name))  # nobody ever joined it
        names = [group.name for group in known if group.settings is not None]
        await self._supervisor.call(RemoveChildren(tuple(map(_child_name, names))))  # from before a restart
        await self._add(names)

    def _check_readable(self) -> None:
        if self._why_not:
            raise UnknownFormat(self._why_not)

    def _draw_id(self) -> int:
        return self._environment.random.getrandbits(GROUP_ID_BITS)

    # Groups

    @answers(FindGroup)
    async def find(self, message: FindGroup) -> ActorRef:
        self._check_readable()
        ref = self._refs.get(message.name)
        if ref is not None:
            return ref
        if not message.create:
            raise UnknownGroup(f"there is no group {message.name!r}; the first consumer that joins makes it")
        return await self._make(message.name)

    async def _make(self, name: str) -> ActorRef:
        await self._register.call(NoteMade(name, self._draw_id()))
        try:
            await self._add([name])
        except GoQueueError:
            await self._register.call(NoteRemoved(name))
            raise
        return self._refs[name]

    async def _add(self, names: Sequence[str]) -> None:
        specs = tuple(ChildSpec(_child_name(name), self._group(name), kind="group") for name in names)
        outcomes = await self._supervisor.call(AddChildren(specs)) if specs else ()
        for name, outcome in zip(names, outcomes, strict=True):
            if not isinstance(outcome, ActorRef):
                raise outcome
            self._counts.of.begin(name)
            self._refs[name] = outcome

    @answers(RemoveGroup)
    async def remove(self, message: RemoveGroup) -> None:
        self._check_readable()
        ref = self._refs.get(message.name)
        if ref is None:
            raise UnknownGroup(f"there is no group {message.name!r}; perhaps it was deleted before")
        await ref.call(CheckEmpty())
        known = await self._register.call(NoteRemoved(message.name))
        del self._refs[message.name]
        await self._supervisor.call(RemoveChildren((_child_name(message.name),)))
        await self._make_partitions_forget(known)
        self._counts.of.end(message.name)
        with suppress(StorageError):  # it is only for operators
            remove_offsets(self._volume, self._data, message.name)

    async def _make_partitions_forget(self, known: KnownGroup) -> None:
        """All at once, and before the name can be used again: partitions know a group by its name."""
        failed = list[str]()
        partitions = {topic.uuid: topic.partitions for topic in await self._topics.call(OutlineTopics())}
        attachments = [
            (topic.uuid, number)
            for topic in known.topics.values()
            for number in range(partitions.get(topic.uuid, 0))
        ]

        async def forget(attachment: tuple[UUID, int]) -> None:
            try:
                ref = await self._topics.call(FindPartition(*attachment))
                await call_within(ANSWER_SECONDS_MAX, ref, ForgetGroup(known.name, known.id))
            except (UnknownTopic, UnknownPartition, UnknownGroup):
                pass  # there is nothing left to forget
            except GoQueueError as error:
                failed.append(error.message)

        await with_each(forget, attachments)
        if failed:
            logger.warning("%d partitions still know group %s: %s", len(failed), known.name, failed[0])
        else:
            with suppress(DiskFull):  # the next start asks them once more
                await self._register.call(NoteForgotten(known.name, known.id))

    def _group(self, name: str) -> Callable[[], Group]:
        times = RebalanceTimes(name, self._counts)
        return lambda: Group(name, self._volume, self._data, self._topics, self._register, times=times)


def _child_name(group: str) -> str:
    return f"group {group}"
