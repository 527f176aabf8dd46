"""Very many topic operations, against a model: what a broker holds is in proportion to what is there.

A run makes some hundreds; the long one a hundred thousand.
"""

import gc
from random import Random

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.actors.runtime.mailbox import Mailbox
from goqueue.testing import Machine
from goqueue.testing.disk import SimulatedDisk

OPERATIONS, OPERATIONS_LONG, SEEDS_FOR_LONG = 400, 100_000, 1_000
NAMES = [f"topic-{number}" for number in range(20)]
PARTITIONS_MAX = 6
DISPOSAL_SECONDS = 60
"""What was deleted is set aside at once, and removed by and by."""


class Story:
    """Topics come, change, are written to and go."""

    def __init__(self, client: goqueue.Client, random: Random) -> None:
        self._client = client
        self._random = random
        self.partitions: dict[str, int] = {}
        self.retention: dict[str, int] = {}

    async def go_on(self) -> None:
        name = self._random.choice(NAMES)
        if name not in self.partitions:
            await self._create(name)
        else:
            await self._random.choice((self._alter, self._grow, self._publish, self._delete))(name)

    async def _create(self, name: str) -> None:
        count, hours = self._random.randint(1, 3), self._random.randint(1, 1_000)
        await self._client.create_topic(name, count, {"retention_hours": hours})
        self.partitions[name], self.retention[name] = count, hours

    async def _alter(self, name: str) -> None:
        self.retention[name] = self._random.randint(1, 1_000)
        await self._client.alter_topic(name, {"retention_hours": self.retention[name]})

    async def _grow(self, name: str) -> None:
        if self.partitions[name] < PARTITIONS_MAX:
            self.partitions[name] += 1
            await self._client.add_partitions(name, self.partitions[name])

    async def _publish(self, name: str) -> None:
        await self._client.publish(name, b"v")

    async def _delete(self, name: str) -> None:
        await self._client.delete_topic(name)
        del self.partitions[name], self.retention[name]

    async def check(self) -> None:
        found = await self._client.topics()
        assert {topic.name: len(topic.partitions) for topic in found} == self.partitions
        assert {topic.name: topic.config["retention_hours"] for topic in found} == self.retention


def files_on(disk: SimulatedDisk, folder: str = "/data") -> int:
    paths = [f"{folder}/{name}" for name in disk.list(folder)]
    return sum(files_on(disk, path) if disk.is_directory(path) else 1 for path in paths)


def mailboxes() -> int:
    gc.collect()
    return sum(type(each) is Mailbox for each in gc.get_objects())


async def test_any_number_of_topic_operations_leaves_what_is_there_and_nothing_else(
    request: pytest.FixtureRequest, autojump_clock: MockClock
) -> None:
    is_long = int(request.config.getoption("--seeds")) >= SEEDS_FOR_LONG
    machine = Machine(7)
    async with machine.running(), machine.client() as client:
        story = Story(client, Random(7))
        for _ in range(OPERATIONS_LONG if is_long else OPERATIONS):
            await story.go_on()
        await story.check()
        partitions_max = len(NAMES) * PARTITIONS_MAX
        assert mailboxes() < 3 * partitions_max, "actors that are gone are forgotten"
        await machine.restart()
        await story.check()
        await trio.sleep(DISPOSAL_SECONDS)
        assert files_on(machine.disk) < 8 * partitions_max, "and so are their files, and old metadata"
