"""The producers behind `client.publish`, before there are any."""

import pytest
import trio
from trio.testing import MockClock

import goqueue
import goqueue.testing


@pytest.fixture
def machine() -> goqueue.testing.Machine:
    return goqueue.testing.Machine()


async def test_without_a_broker_a_first_publish_ends_after_thirty_seconds_too(
    machine: goqueue.testing.Machine, autojump_clock: MockClock
) -> None:
    """So do those that wait for the same producer; a broker that comes meanwhile has what all of them sent."""
    async with machine.client() as client, machine.running():
        await client.create_topic("orders")
    async with machine.client() as client:
        begin = trio.current_time()
        ends = list[float]()

        async def publish() -> None:
            with pytest.raises(goqueue.DeliveryTimeout, match="not written"):
                await client.publish("orders", b"too early")
            ends.append(trio.current_time() - begin)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(publish)
        assert ends == pytest.approx([30] * 3)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(client.publish, "orders", b"in time")
            await trio.sleep(20)
            async with machine.running():
                await trio.sleep(10)
                read = [each.value async for each in client.read("orders", end="latest")]
                assert read == [b"in time"] * 3
