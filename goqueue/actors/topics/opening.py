"""Opens the partitions of a node: signs and starts them, or starts a stand-in where that fails.

A stand-in answers for a partition that was lost or cannot be opened, and says why. A partition that only lacked
room or a descriptor is tried again every second, under the same ref: clients may try again meanwhile.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

import trio

from goqueue.actors.partition.unavailable import UnavailablePartition, is_bearable, not_yet, unavailable
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.concurrently import concurrently
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.supervisor import AddChildren, RemoveChildren, ReopenChild
from goqueue.actors.topics.lost import LostPartitions
from goqueue.actors.topics.partitions import PartitionChild
from goqueue.core.topics.metadata import KnownTopic
from goqueue.errors import StorageError
from goqueue.storage.directory.folders import TopicFolders

STOP_SECONDS_MAX = 20.0
WIDTH = 16
"""Maximum number of partitions that are signed, started, configured or stopped at a time."""
RETRY_SECONDS = 1.0
"""The time between two tries to open a partition that lacked room or a descriptor."""


class PartitionOpening:
    def __init__(
        self,
        folders: TopicFolders,
        lost: LostPartitions,
        supervisor: ActorRef,
        make: Callable[[PartitionChild], Actor],
        report: Callable[[str], None],
    ) -> None:
        self._folders = folders
        self._lost = lost
        self._supervisor = supervisor
        self._make = make
        self._report = report
        self.refs: dict[tuple[UUID, int], ActorRef] = {}
        self.unavailable: set[tuple[UUID, int]] = set()
        """The partitions that could not be opened."""
        self._waiting: dict[tuple[UUID, int], tuple[PartitionChild, StorageError]] = {}
        """The partitions that lacked room or a descriptor."""
        self._retry_at = math.inf

    async def sign(self, places: Sequence[PartitionChild]) -> dict[PartitionChild, Exception]:
        """Make the folders durable. Returns the failures. A lost partition has no folder."""
        failures: dict[PartitionChild, Exception] = {}

        async def sign(place: PartitionChild) -> None:
            try:
                await self._folders.sign(place.topic, place.number)
            except StorageError as error:
                failures[place] = error

        there = [place for place in places if self._lost.find(place.topic, place.number) is None]
        await concurrently(sign, there, WIDTH)
        return failures

    async def start(self, places: Sequence[PartitionChild], failures: dict[PartitionChild, Exception]) -> None:
        """Start the signed partitions, and a stand-in for each that could not be opened."""
        await self._supervisor.call(RemoveChildren(tuple(place.name for place in places)))  # from before a restart
        signed = [place for place in places if place not in failures]
        await self._stand_in_for(failures | await self._add({place: self._spec(place) for place in signed}))

    async def remove(self, topic: KnownTopic) -> None:
        await self._supervisor.call(
            RemoveChildren(tuple(PartitionChild(topic, number).name for number in topic.numbers))
        )
        for number in topic.numbers:
            self.refs.pop((topic.uuid, number), None)
            self._waiting.pop((topic.uuid, number), None)
            self.unavailable.discard((topic.uuid, number))
            self._lost.forget(topic, number)

    # Once more

    @property
    def retry_at(self) -> float | None:
        return self._retry_at if self._waiting else None

    async def retry(self) -> set[str]:
        """Try the partitions again that lacked room or a descriptor. Returns the topics of those that still do."""
        self._retry_at = trio.current_time() + RETRY_SECONDS
        places = [place for place, _ in self._waiting.values()]
        failures = await self.sign(places)
        for place in places:
            if place not in failures:
                await self.reopen(place)
        return {place.topic.name for place, _ in self._waiting.values()}

    async def reopen(self, place: PartitionChild) -> None:
        """End the stand-in, and start the partition under the same ref."""
        self._waiting.pop((place.topic.uuid, place.number), None)
        try:
            await self._supervisor.call(ReopenChild(place.name))
        except StorageError as error:
            await self._stand_in_for({place: error})

    # Children

    async def _stand_in_for(self, failures: dict[PartitionChild, Exception]) -> None:
        specs = {}
        for place, error in failures.items():
            if not is_bearable(error):
                raise error
            specs[place] = self._awaited(place, error) if error.retryable else self._refusing(place, error)
        for error in (await self._add(specs)).values():
            raise error

    def _awaited(self, place: PartitionChild, error: StorageError) -> ChildSpec:
        reason = not_yet(place.topic, place.number, error)
        self._waiting[place.topic.uuid, place.number] = place, reason
        self._retry_at = trio.current_time() + RETRY_SECONDS
        self._report(reason.message)
        return self._spec(place)

    def _refusing(self, place: PartitionChild, error: StorageError) -> ChildSpec:
        folder = self._folders.partition(place.topic, place.number)
        reason = unavailable(place.topic, place.number, folder, error)
        self.unavailable.add((place.topic.uuid, place.number))
        self._report(reason.message)
        return _spec_of(place, partial(UnavailablePartition, reason))

    async def _add(self, specs: dict[PartitionChild, ChildSpec]) -> dict[PartitionChild, Exception]:
        """Start these. Returns the failures."""
        outcomes = await self._supervisor.call(AddChildren(tuple(specs.values()))) if specs else ()
        failures: dict[PartitionChild, Exception] = {}
        for place, outcome in zip(specs, outcomes, strict=True):
            if isinstance(outcome, ActorRef):
                self.refs[place.topic.uuid, place.number] = outcome
            else:
                failures[place] = outcome
        return failures

    def _spec(self, place: PartitionChild) -> ChildSpec:
        return _spec_of(place, partial(self._occupant, place))

    def _occupant(self, place: PartitionChild) -> Actor:
        """Called at each start: the partition, or its stand-in."""
        _, reason = self._waiting.get((place.topic.uuid, place.number), (None, None))
        reason = reason or self._lost.look_again(place.topic, place.number)
        return self._make(place) if reason is None else UnavailablePartition(reason)


def _spec_of(place: PartitionChild, factory: Callable[[], Actor]) -> ChildSpec:
    return ChildSpec(place.name, factory, stop_timeout_seconds=STOP_SECONDS_MAX, kind="partition")
