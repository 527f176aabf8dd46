"""A real broker under attack from another process: a client beside it notices nothing, and memory stays bounded."""

import json
import os
from pathlib import Path

import pytest
import trio

import goqueue
from tests.process.brokers import broker_process
from tests.process.children import Child, child

WORK_SECONDS_MAX = 2.0
"""Limit of the broker's processor time during one publish: how long it serves others first. A busy machine makes a
publish slower, and this not longer."""
MEMORY_MAX_MIB = 250
"""Of the broker's process: 60 at rest, and less than 60 KiB for each of the crowd."""
CROWD, HTTP_CROWD = 1_500, 800
"""The HTTP port takes 1,000 at once."""
DESCRIPTORS_LEFT_MAX = 20


def memory_mib(process: Child, field: str = "VmHWM") -> float:
    lines = Path(f"/proc/{process.process.pid}/status").read_text().splitlines()
    [line] = [each for each in lines if each.startswith(field)]
    return int(line.split()[1]) / 1024


def descriptors(process: Child) -> int:
    return len(os.listdir(f"/proc/{process.process.pid}/fd"))


async def most_descriptors(process: Child, wanted: int) -> int:
    """As soon as there are so many; or after a while."""
    for _ in range(50):
        if (found := descriptors(process)) > wanted:
            break
        await trio.sleep(0.05)
    return found


def work_seconds(process: Child) -> float:
    """The processor time that it has used."""
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Publisher:
    """Publishes without a pause, until told to stop."""

    def __init__(self, client: goqueue.Client, broker: Child) -> None:
        self._client = client
        self._broker = broker
        self.published = 0
        self.work_max = 0.0
        """The most that the broker worked during one publish."""

    async def run(self) -> None:
        while True:
            before = work_seconds(self._broker)
            await self._client.publish("orders", b"%d" % self.published)
            self.work_max = max(self.work_max, work_seconds(self._broker) - before)
            self.published += 1


@pytest.mark.parametrize(("port", "crowd"), [("websocket", CROWD), ("http", HTTP_CROWD)])
async def test_a_client_beside_thousands_of_connections_and_attackers_of_every_sort_notices_nothing(
    port: str, crowd: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """G14: no publish fails or waits for 2 s of work for others, memory stays below its bound, descriptors come
    back."""
    seconds = min(30, 4 + int(request.config.getoption("--seeds")) // 50)
    async with broker_process(tmp_path) as (broker, url), goqueue.connect(url) as client:
        await client.create_topic("orders", partitions=1)
        before = descriptors(broker)
        publisher = Publisher(client, broker)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(publisher.run)
            number = json.loads(broker.lines[0])[port].rpartition(":")[2]
            async with child("tests.hostile.siege", number, "0", str(seconds), str(crowd), port) as siege:
                await siege.listen(1)
                crowded, published = await most_descriptors(broker, before + crowd // 3), publisher.published
                assert await siege.end() == 0
                assert publisher.published > published
            nursery.cancel_scope.cancel()
        shown = f"{publisher.work_max:.2f} s of work during the slowest, {memory_mib(broker):.0f} MiB"
        print(f"{publisher.published} publishes, {shown}")
        assert crowded > before + crowd // 3
        assert publisher.work_max < WORK_SECONDS_MAX
        assert memory_mib(broker) < MEMORY_MAX_MIB
        with trio.fail_after(20):
            while descriptors(broker) > before + DESCRIPTORS_LEFT_MAX:  # noqa: ASYNC110  (another process's)
                await trio.sleep(0.1)
        ends = [partition.end for partition in (await client.topic("orders")).partitions]
        assert publisher.published <= sum(ends) <= publisher.published + 1
