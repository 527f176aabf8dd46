"""A change that is asked again because its answer was lost: done once, and answered as the first time."""

from random import Random
from uuid import UUID

import pytest
from trio.testing import MockClock

from goqueue.actors.topics.board import described_topics
from goqueue.actors.topics.requests import AddPartitions, CreateTopic, DeleteTopic
from goqueue.errors import InvalidConfig, TopicExists, UnknownTopic
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker, partition_of, values
from tests.actors.partition.test_partition import publish

TOKEN, OTHER = UUID(int=1), UUID(int=2)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def test_a_repeated_create_finds_the_topic_that_the_first_made(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        made = await running.topics.call(CreateTopic("orders", 2, {}, TOKEN))
        assert await running.topics.call(CreateTopic("orders", 2, {}, TOKEN)) == made
        for token in (OTHER, None):
            with pytest.raises(TopicExists):
                await running.topics.call(CreateTopic("orders", 2, {}, token))
    async with broker(disk.crash()) as running:
        again = await running.topics.call(CreateTopic("orders", 2, {}, TOKEN))
        assert again.uuid == made.uuid, "the broker knows it after a restart too"


async def test_a_topic_made_without_a_token_is_nobodys_repeat(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await running.topics.call(CreateTopic("orders", 1, {}))
        with pytest.raises(TopicExists):
            await running.topics.call(CreateTopic("orders", 1, {}))


async def test_a_repeated_delete_is_done_and_never_meets_a_topic_made_again(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        first = await running.topics.call(CreateTopic("orders", 1, {}))
        for _ in range(2):
            await running.topics.call(DeleteTopic("orders", first.uuid))
        second = await running.topics.call(CreateTopic("orders", 1, {}))
        await (await partition_of(running, second)).call(publish(b"new"))
        await running.topics.call(DeleteTopic("orders", first.uuid))
        with pytest.raises(UnknownTopic):
            await running.topics.call(DeleteTopic("orders", OTHER))
    async with broker(disk.crash()) as running:
        await running.topics.call(DeleteTopic("orders", first.uuid))
        assert await values(await partition_of(running, second)) == [b"new"]
        await running.topics.call(DeleteTopic("orders", second.uuid))
        assert await described_topics(running.topics) == ()


async def test_widening_to_the_present_number_is_done_and_to_fewer_is_refused(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await running.topics.call(CreateTopic("orders", 1, {}))
        wider = await running.topics.call(AddPartitions("orders", 3))
        assert await running.topics.call(AddPartitions("orders", 3)) == wider
        with pytest.raises(InvalidConfig):
            await running.topics.call(AddPartitions("orders", 2))
