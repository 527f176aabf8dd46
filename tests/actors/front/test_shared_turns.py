"""Many members of a shared group at few partitions: a message wakes one of them, and all have their turn (G7)."""

from collections import Counter
from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import goqueue
from goqueue.actors.delivery.requests import AwaitDeliverable
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import GROUP, Desk, desk, offsets
from tests.client.test_client import Machine, machine

__all__ = ["machine"]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def wait_on(there: Desk, member: str, woken: list[str]) -> None:
    await there.wait(1000, member)
    woken.append(member)


async def test_a_message_wakes_one_member_and_what_is_left_the_next(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, attached=False) as there, trio.open_nursery() as nursery:
        await there.attach(is_shared=True)
        woken: list[str] = []
        for number in range(50):
            nursery.start_soon(wait_on, there, f"m{number:02}", woken)
            await wait_all_tasks_blocked()
        await there.publish(b"a", b"b", b"c")
        await wait_all_tasks_blocked()
        assert woken == ["m00"]
        assert offsets(await there.take(1, "m00")) == [0]
        await wait_all_tasks_blocked()
        assert woken == ["m00", "m01"], "there is more"
        assert offsets(await there.take(5, "m01")) == [1, 2]
        await trio.sleep(1)
        assert woken == ["m00", "m01"], "there is nothing more"
        nursery.cancel_scope.cancel()


async def test_who_was_woken_and_does_not_come_keeps_nobody_waiting(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk, attached=False) as there, trio.open_nursery() as nursery:
        await there.attach(is_shared=True)
        with trio.move_on_after(1):  # it goes without a word
            await there.ref.call(AwaitDeliverable(GROUP, "gone", 1000))
        woken: list[str] = []
        for number in range(3):
            nursery.start_soon(wait_on, there, f"m{number}", woken)
            await wait_all_tasks_blocked()
        await there.publish(b"a")
        await wait_all_tasks_blocked()
        assert woken == ["m0"]
        await trio.sleep(0.03)
        assert woken == ["m0", "m1"]
        assert offsets(await there.take(1, "m1")) == [0]
        await trio.sleep(1)
        assert woken == ["m0", "m1"]
        nursery.cancel_scope.cancel()


async def serve(client: goqueue.Client, served: Counter[str], held: set[tuple[int, int]], work: float) -> None:
    async with client.consumer("orders", group="billing", shared=True, max_in_flight=1) as consumer:
        served[consumer.member_id] = 0
        while True:
            for message in await consumer.receive(1, timeout=30):
                place = message.partition, message.offset
                assert place not in held, "G7"
                held.add(place)
                await trio.sleep(work)
                held.remove(place)
                await message.ack()
                served[consumer.member_id] += 1


CROWDS = {"many": (30, 150), "very many": (75, 150)}
LARGER_CROWDS, SEEDS_FOR_LARGER = {"many": (50, 1_000), "very many": (300, 600)}, 300
"""Members, and messages for them: of the long run, hundreds of members."""


@pytest.mark.parametrize("crowd", CROWDS)
async def test_many_members_at_three_partitions_are_served_evenly(
    machine: Machine, autojump_clock: MockClock, crowd: str, request: pytest.FixtureRequest
) -> None:
    is_long = int(request.config.getoption("--seeds")) >= SEEDS_FOR_LARGER
    members, messages = (LARGER_CROWDS if is_long else CROWDS)[crowd]
    served, held = Counter[str](), set[tuple[int, int]]()
    async with machine.broker(), trio.open_nursery() as nursery, machine.client() as client:
        await client.create_topic("orders", partitions=3)
        for _ in range(members):
            connection = await nursery.start(connected, machine)
            nursery.start_soon(serve, connection, served, held, 0.01)
        await trio.sleep(5)
        assert len(served) == members
        for number in range(messages):
            await client.publish("orders", b"x", partition=number % 3)
            await trio.sleep(0.02)
        await trio.sleep(5)
        assert served.total() == messages
        nursery.cancel_scope.cancel()
    fair = messages / members
    assert fair * 0.9 <= min(served.values()) <= max(served.values()) <= fair * 1.1, served.most_common()


async def connected(
    machine: Machine, task_status: "trio.TaskStatus[goqueue.Client]" = trio.TASK_STATUS_IGNORED
) -> None:
    async with machine.client() as client:
        task_status.started(client)
        await trio.sleep_forever()
