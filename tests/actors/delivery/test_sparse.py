"""Few messages of large batches: what is not asked for does not travel, and takes nobody's memory."""

from random import Random

import pytest
from trio.testing import MockClock

from goqueue.actors.delivery.gathering import SPARSE_BYTES_MIN, SPARSE_TIMES
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import desk, held, offsets, run, values

COUNT, SIZE = 1_000, 100


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


def value(number: int) -> bytes:
    return b"%d" % number * (1 + number % 5) + bytes(SIZE)


@pytest.mark.parametrize("key_order", [False, True])
async def test_few_messages_of_a_large_batch_travel_alone(
    key_order: bool, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """A consumer that holds one of each would have used up its credit of bytes soon."""
    async with desk(disk, attached=False) as there:
        await there.attach(settings=LedgerSettings(key_order=key_order))
        keys = [b"%d" % number for number in range(COUNT)]
        await there.publish(*map(value, range(COUNT)), keys=keys)
        for number in range(5):
            taken = await there.take(1)
            assert (offsets(taken), held(taken)) == ([number], [number])
            assert values(taken) == [value(number)]
            assert len(taken.data) < 1_024
        assert offsets(await there.take(7)) == list(range(5, 12))


async def test_few_messages_after_each_other_take_one_read(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.publish(*map(value, range(COUNT)))
        assert offsets(await there.take(1)) == [0]
        before = disk.counts.reads
        assert [offsets(await there.take(1)) for _ in range(3)] == [[1], [2], [3]]
        assert disk.counts.reads == before
        await there.publish(*map(value, range(COUNT)))
        await there.take(COUNT // 2)
        before = disk.counts.reads
        assert [*map(values, [await there.take(COUNT // 2 - 4), await there.take(1)])][1] == [value(0)]
        assert disk.counts.reads > before, "the next batch is another one"


async def test_many_messages_of_a_batch_travel_in_it(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        await there.publish(*map(value, range(COUNT)))
        taken = await there.take(COUNT // 2)
        assert (len(offsets(taken)), len(held(taken))) == (COUNT // 2, COUNT)
        assert len(taken.data) < SPARSE_TIMES * COUNT // 2 * 2 * SIZE


async def test_a_large_message_travels_as_it_is(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with desk(disk) as there:
        for _ in range(50):
            await there.publish(b"small")
        await there.publish(bytes(2 * SPARSE_BYTES_MIN))
        await there.take(50)
        assert values(await there.take(1)) == [bytes(2 * SPARSE_BYTES_MIN)]


async def test_what_comes_again_is_there_beside_what_is_fresh(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        await there.publish(*map(value, range(COUNT)))
        first = await there.take(6)
        await there.settle(first, Action.RELEASE, runs=[run(1), run(4)])
        taken = await there.take(4)
        assert sorted(offsets(taken)) == [1, 4, 6, 7]
        assert sorted(values(taken)) == sorted(map(value, [1, 4, 6, 7]))
        assert len(taken.data) < 2_048


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_is_taken_is_what_was_published(
    seed: int, disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: each message once, with its own value, however batches and requests are cut."""
    random, published = Random(seed), list[bytes]()
    async with desk(disk) as there:
        while len(published) < 2_000:
            batch = [value(random.randrange(COUNT)) for _ in range(random.choice([1, 3, 200, 700]))]
            await there.publish(*batch)
            published += batch
        seen: dict[int, bytes] = {}
        while taken := offsets(found := await there.take(random.choice([1, 2, 5, 50, 400]))):
            seen |= dict(zip(taken, values(found), strict=True))
        assert [seen[offset] for offset in range(len(published))] == published
