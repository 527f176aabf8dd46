"""A power cut or a kill at every step of a change: the next start finds the old or the new state, and the rest."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.node.broker import Broker
from goqueue.actors.topics.board import described_topics
from goqueue.actors.topics.janitor import DISPOSAL_SECONDS
from goqueue.actors.topics.requests import (
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    TopicView,
)
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.faults import Faults
from tests.actors.delivery.gatherers import WatchedDisk, broker, partition_of, values
from tests.actors.partition.test_partition import publish

QUICK = Faults(sync_seconds=(0.0, 0.001), cold_read_seconds=(0.0, 0.0))
Shape = tuple[str, int, int]
End = Callable[[SimulatedDisk], SimulatedDisk]


@dataclass
class Story:
    """What was there, what happened to it, and what an image showed afterwards."""

    before: set[Shape]
    after: set[Shape]
    images: list[SimulatedDisk]
    bystander: TopicView
    orders: TopicView


def shape(topic: TopicView) -> Shape:
    return topic.name, len(topic.partitions), topic.config["retention_hours"]


async def shapes(running: Broker) -> set[Shape]:
    topics = await described_topics(running.topics)
    assert all(view.error is None for topic in topics for view in topic.partitions), "none is taken for lost"
    return {shape(topic) for topic in topics}


async def told(change: Callable[[Broker], Awaitable[Any]], end: End) -> Story:
    """Two topics with a message each; then the change, with an image of the disk before each of its steps."""
    watched = WatchedDisk(SimulatedDisk(Random(0), faults=QUICK), end)
    async with broker(watched) as running:
        bystander = await running.topics.call(CreateTopic("bystander", 1, {}))
        orders = await running.topics.call(CreateTopic("orders", 2, {}))
        for topic, value in ((bystander, b"theirs"), (orders, b"ours")):
            await (await partition_of(running, topic)).call(publish(value))
        before, watched.images = await shapes(running), []
        await change(running)
        await trio.sleep(2 * DISPOSAL_SECONDS)
        images, watched.images = watched.images, None
        return Story(before, await shapes(running), images, bystander, orders)


async def create(running: Broker) -> None:
    await running.topics.call(CreateTopic("fresh", 2, {"retention_hours": 7}))


async def alter(running: Broker) -> None:
    await running.topics.call(AlterTopic("orders", {"retention_hours": 7}))


async def add_partitions(running: Broker) -> None:
    await running.topics.call(AddPartitions("orders", 4))


async def delete(running: Broker) -> None:
    await running.topics.call(DeleteTopic("orders"))


@pytest.mark.parametrize("end", [SimulatedDisk.crash, SimulatedDisk.kill], ids=["power cut", "kill"])
@pytest.mark.parametrize("change", [create, alter, add_partitions, delete])
async def test_an_end_at_any_step_leaves_the_old_or_the_new_state(
    change: Callable[[Broker], Awaitable[Any]], end: End, autojump_clock: MockClock
) -> None:
    """G1, G13"""
    story = await told(change, end)
    found: list[set[Shape]] = []
    for image in story.images:
        async with broker(image) as running:
            found.append(await shapes(running))
            assert await values(await partition_of(running, story.bystander)) == [b"theirs"]
            if any(name == "orders" for name, *_ in found[-1]):
                assert await values(await partition_of(running, story.orders)) == [b"ours"]
        assert not image.exists("/data/stray")
    assert found[0] == story.before
    assert found[-1] == story.after
    assert all(each in (story.before, story.after) for each in found)


@pytest.mark.parametrize("end", [SimulatedDisk.crash, SimulatedDisk.kill], ids=["power cut", "kill"])
async def test_a_topic_made_again_after_an_end_in_the_middle_of_its_deletion_has_none_of_the_old_data(
    end: End, autojump_clock: MockClock
) -> None:
    story = await told(delete, end)
    for image in story.images:
        async with broker(image) as running:
            if story.before == await shapes(running):
                await running.topics.call(DeleteTopic("orders"))
            again = await running.topics.call(CreateTopic("orders", 2, {}))
            assert again.uuid != story.orders.uuid
            assert [await values(await partition_of(running, again, number)) for number in (0, 1)] == [[], []]
            await (await partition_of(running, again)).call(publish(b"new"))
            await trio.sleep(2 * DISPOSAL_SECONDS)
            assert image.list("/data/deleted") == [], "what a crash left in the middle is emptied too"
            assert await values(await partition_of(running, again)) == [b"new"]
        async with broker(image) as running:
            assert await values(await partition_of(running, again)) == [b"new"]
