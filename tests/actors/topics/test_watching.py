"""Topics at a glance: cheap to ask for, and told to whoever watches."""

from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.handlers import hears
from goqueue.actors.runtime.root import running as running_tree
from goqueue.actors.topics.requests import (
    AddPartitions,
    AlterTopic,
    CreateTopic,
    DeleteTopic,
    OutlineTopics,
    TopicOutline,
    TopicsChanged,
    WatchTopics,
)
from goqueue.actors.topics.watching import TIDY_ABOVE_MIN, Watchers
from goqueue.core.topics.metadata import Metadata
from goqueue.errors import InvalidName
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker
from tests.actors.runtime.troupe import Puppet


class Watcher(Puppet):
    @hears(TopicsChanged)
    async def topics_changed(self, sender: str, news: TopicsChanged) -> None:
        self.facts.append((sender, news))


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def test_who_watches_hears_of_topics_that_come_grow_and_go(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    watcher = Watcher()
    async with broker(disk) as running, running_tree(ChildSpec("watcher", lambda: watcher)) as ref:
        assert await running.topics.call(WatchTopics(ref)) == ()
        made = await running.topics.call(CreateTopic("orders", 2, {}))
        assert await running.topics.call(OutlineTopics()) == (TopicOutline("orders", made.uuid, 2),)
        await running.topics.call(AlterTopic("orders", {"retention_hours": 5}))
        await wait_all_tasks_blocked()
        assert watcher.facts == [("topics", TopicsChanged())], "other settings are none of its business"
        await running.topics.call(AddPartitions("orders", 3))
        await wait_all_tasks_blocked()
        assert await running.topics.call(OutlineTopics()) == (TopicOutline("orders", made.uuid, 3),)
        await running.topics.call(DeleteTopic("orders"))
        await wait_all_tasks_blocked()
        assert await running.topics.call(OutlineTopics()) == ()
        assert len(watcher.facts) == 3


async def test_a_watcher_that_is_gone_is_forgotten(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with broker(disk) as running:
        async with running_tree(ChildSpec("watcher", Watcher)) as ref:
            await running.topics.call(WatchTopics(ref))
        await running.topics.call(CreateTopic("orders", 1, {}))
        with trio.fail_after(1):
            assert len(await running.topics.call(OutlineTopics())) == 1


async def test_watchers_that_come_and_go_do_not_pile_up(autojump_clock: MockClock) -> None:
    """Topics may never change; groups for a moment come all day."""
    watchers = Watchers(Metadata())
    async with running_tree(ChildSpec("watcher", Watcher)) as lasting:
        watchers.add(lasting)
        for _ in range(3 * TIDY_ABOVE_MIN):
            async with running_tree(ChildSpec("watcher", Watcher)) as passing:
                watchers.add(passing)
            assert len(watchers) <= TIDY_ABOVE_MIN
        watchers.tell("topics")
        assert len(watchers) == 1


async def test_only_the_broker_makes_topics_with_names_beyond_the_limit(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    name = "x" * 196 + ".dlq"
    async with broker(disk) as running:
        with pytest.raises(InvalidName):
            await running.topics.call(CreateTopic(name, 1, {}))
        assert (await running.topics.call(CreateTopic(name, 1, {}, by_broker=True))).name == name
