"""What the list of topics shows: which topics there are, and through the boards of their partitions how they stand.

A topic is on the board once its partitions were started, and until it is deleted: who looks never sees half of a
change. A change is on the board before it is answered.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from goqueue.actors.partition.board import PartitionBoard, board_of
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.statistics.statistics import TopicCounts
from goqueue.actors.topics.requests import OutlineTopics, PartitionView, TopicView
from goqueue.core.topics.metadata import KnownTopic, Metadata
from goqueue.errors import ActorDied, Closed, StorageError, TooLarge, UnknownTopic
from goqueue.storage.slices import Slices

PARTITIONS_SHOWN_MAX = 200_000
"""Limit of the partitions in one description of topics."""


class TopicsBoard:
    def __init__(
        self,
        metadata: Metadata,
        refs: Mapping[tuple[UUID, int], ActorRef],
        unavailable: Collection[tuple[UUID, int]],
        lost: Collection[tuple[UUID, int]],
    ) -> None:
        self._metadata = metadata
        self._refs = refs
        self._unavailable = unavailable
        self._lost = lost
        self._topics: dict[str, KnownTopic] = {}

    def put(self, topic: KnownTopic) -> None:
        """Show a topic, or how it is after a change."""
        self._topics[topic.name] = topic

    def remove(self, topic: KnownTopic) -> None:
        self._topics.pop(topic.name, None)

    def topics(self) -> list[KnownTopic]:
        """In order of name."""
        return [self._topics[name] for name in sorted(self._topics)]

    def topic(self, name: str) -> KnownTopic:
        found = self._topics.get(name)
        if found is None:
            self._metadata.topic(name)  # raises, unless it is being made
            raise UnknownTopic(f"topic {name} is being created; try again")
        return found

    async def describe(self, names: Sequence[str] | None, slices: Slices) -> tuple[TopicView, ...]:
        """These topics, or all of them, each once. A partition that is being started is waited for."""
        if names is not None:
            topics = [self.topic(name) for name in dict.fromkeys(names)]
            _check_size(topics)
            return tuple([await self.view(topic, slices) for topic in topics])
        views, topics = [], self.topics()
        _check_size(topics)
        for topic in topics:
            with suppress(UnknownTopic):  # deleted meanwhile
                views.append(await self.view(topic, slices))
        return tuple(views)

    async def view(self, topic: KnownTopic, slices: Slices) -> TopicView:
        views = []
        try:
            for number in topic.numbers:
                views.append(await _view(number, self.ref(topic, number)))
                await slices.step()
        except (ActorDied, Closed):
            self._check_there(topic)
            raise ActorDied(f"a partition of topic {topic.name} is being started or stopped; try again") from None
        await slices.step()
        return TopicView(topic.name, topic.uuid, topic.config.to_plain(), tuple(views))

    def ref(self, topic: KnownTopic, number: int) -> ActorRef:
        ref = self._refs.get((topic.uuid, number))
        if ref is None:
            self._check_there(topic)
            raise ActorDied(f"partition {number} of topic {topic.name} is not started; try again")
        return ref

    def shown(self, topic: KnownTopic, number: int) -> object | None:
        """The board of a partition; None while it is being started."""
        ref = self._refs.get((topic.uuid, number))
        return None if ref is None else ref.board

    def impaired(self) -> tuple[list[str], list[str]]:
        """The names of the partitions that are unavailable, and of those that are lost."""
        names = {topic.uuid: topic.name for topic in self._topics.values()}
        unavailable, lost = (
            sorted(((names[uuid], number) for uuid, number in places if uuid in names))
            for places in (self._unavailable, self._lost)
        )
        return [f"{name}/{number}" for name, number in unavailable], [f"{name}/{number}" for name, number in lost]

    def _check_there(self, topic: KnownTopic) -> None:
        if self._metadata.topic(topic.name).uuid != topic.uuid:
            raise UnknownTopic(f"topic {topic.name} was deleted just now and made again; ask once more")

    async def count(self, slices: Slices) -> TopicCounts:
        deepest = depth = 0
        for ref in list(self._refs.values()):
            counts = ref.counts
            deepest, depth = max(deepest, counts.depth_highest), depth + counts.depth
            await slices.step()
        partitions = sum(topic.partitions for topic in self._topics.values())
        return TopicCounts(len(self._topics), partitions, len(self._unavailable), len(self._lost), deepest, depth)


def _check_size(topics: Sequence[KnownTopic]) -> None:
    """Before the memory for it is taken (G14)."""
    partitions = sum(topic.partitions for topic in topics)
    if len(topics) > 1 and partitions > PARTITIONS_SHOWN_MAX:
        raise TooLarge(
            f"these topics have {partitions:,} partitions, and an answer at most {PARTITIONS_SHOWN_MAX:,}; ask for "
            "fewer by name"
        )


async def _view(number: int, ref: ActorRef) -> PartitionView:
    try:
        board = ref.board
        if not isinstance(board, PartitionBoard):
            board = await board_of(ref)
        log = board.log
        damage = await board.damage() if log.damage_met else ()
    except StorageError as error:
        return PartitionView(number, 0, 0, 0, error)
    hold = board.ledgers.acked.hold()
    places = number, log.leader_epoch, log.log_start, log.end_offset
    return PartitionView(*places, damage=damage, hold=hold, size=log.size, messages=log.records)


async def topics_board(topics: ActorRef) -> TopicsBoard:
    """What the list of topics shows, as soon as it has started."""
    board = await topics.shown()
    assert isinstance(board, TopicsBoard), "it shows this before it is live"
    return board


async def described_topics(
    topics: ActorRef, names: Sequence[str] | None = None, slices: Slices | None = None
) -> tuple[TopicView, ...]:
    """These topics, or all of them; none of their partitions gets a message. A topic that is not there is waited
    for while the list of topics is at work: it may be being created."""
    board, slices = await topics_board(topics), slices or Slices()
    try:
        return await board.describe(names, slices)
    except UnknownTopic:
        if topics.is_idle:
            raise
    await topics.call(OutlineTopics())  # its turn comes when the work is done
    return await board.describe(names, slices)
