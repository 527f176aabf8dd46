"""A consumer with a member_id of its own, killed and started again at once, as real processes."""

from pathlib import Path

import trio

import goqueue
from tests.process.brokers import broker_process
from tests.process.children import child
from tests.process.histories import TOPIC

GROUP = "billing"
SECONDS_MAX = 60.0


async def test_a_killed_consumer_that_is_started_again_has_its_messages_back_and_nobody_elses_partitions_move(
    tmp_path: Path,
) -> None:
    with trio.fail_after(SECONDS_MAX):
        async with broker_process(tmp_path) as (_, url), goqueue.connect(url) as client:
            await client.create_topic(TOPIC, partitions=4)
            async with client.consumer(TOPIC, group=GROUP, member_id="other"):
                async with child("tests.process.member", url, TOPIC, GROUP, "worker") as dying:
                    await dying.listen(1)
                    before = await client.group(GROUP)
                    mine = [each.partition for each in before.partitions if each.member_id == "worker"]
                    assert len(mine) == 2
                    for partition in mine * 3:
                        await client.publish(TOPIC, b"x", partition=partition)
                    await dying.listen(7)
                    dying.process.kill()
                    assert await dying.end() == -9
                async with child("tests.process.member", url, TOPIC, GROUP, "worker") as again:
                    await again.listen(1)
                    begin = trio.current_time()
                    await again.listen(7)
                    assert trio.current_time() - begin < 2, "long before its leases end"
                    after = await client.group(GROUP)
    held = {line.removesuffix(" 1") for line in dying.lines[1:]}
    assert {line.removesuffix(" 2") for line in again.lines[1:]} == held
    assert after.generation == before.generation
    owners = [[each.member_id for each in group.partitions] for group in (before, after)]
    assert owners[0] == owners[1]
