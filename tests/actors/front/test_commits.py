"""What members of a stream commit: to its partition, in the order of the frames."""

import trio
from trio.testing import MockClock

from goqueue.actors.delivery.requests import CommitOffset
from goqueue.errors import StaleGeneration
from goqueue.net.transport.transport import MemoryTransport
from goqueue.net.wire.errors import ConnectionLost
from goqueue.net.wire.groups import CommitOffsets, CommitPartition, CommittedPartition, OffsetsCommitted
from tests.actors.front.connectionstage import TOPIC, Stage, staged
from tests.net import bodies


def commit(offset: int, partition: int = 0) -> CommitOffsets:
    return bodies.commit("g", "m", 3, (CommitPartition(TOPIC, partition, offset),))


def committed(stage: Stage, partition: int = 0) -> list[int]:
    return [each.offset for each in stage.partitions[partition].asked if isinstance(each, CommitOffset)]


def hand_over_all_frames_at_once(stage: Stage) -> None:
    """As a socket does when the broker was busy: the reader finds several frames, and does not wait for each."""
    transport = stage.client.connection._transport
    assert isinstance(transport, MemoryTransport)
    wait = transport.receive

    async def receive() -> bytes | None:
        try:
            return transport._incoming.receive_nowait()
        except trio.WouldBlock:
            return await wait()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise ConnectionLost("the connection was cut") from None

    transport.receive = receive  # type: ignore[method-assign]


async def test_commits_reach_their_partition_in_the_order_of_the_frames(autojump_clock: MockClock) -> None:
    """An older commit that came last would take the group back, and the next owner would begin there."""
    async with staged() as stage:
        hand_over_all_frames_at_once(stage)
        for beginning in range(0, 50, 5):
            for offset in range(beginning, beginning + 5):
                stage.client.session.request(commit(offset))
            frames = [stage.client.session.next_frame() for _ in range(5)]
            for frame in frames:
                assert frame is not None
                stage.client.transport.post(frame)
            for _ in range(5):
                assert (await stage.client.outcome())[1] == OffsetsCommitted((CommittedPartition(None),))
        assert committed(stage) == list(range(50))


async def test_a_commit_answers_for_each_partition_what_became_of_it(autojump_clock: MockClock) -> None:
    async with staged(2) as stage:
        stage.partitions[1].outcomes = [StaleGeneration("it is another member's")]
        where = tuple(CommitPartition(TOPIC, number, 5) for number in (0, 1, 9))
        answer = await stage.client.ask(bodies.commit("g", "m", 3, where))
        assert isinstance(answer, OffsetsCommitted)
        codes = [each.error and each.error.code for each in answer.partitions]
        assert codes == [None, "stale_generation", "unknown_partition"]
