"""Members of a group as real processes: one killed and started again at once, and others that come and go."""

from itertools import pairwise
from pathlib import Path

import trio

import goqueue
from benchmarks.rebalance.crew import Crew, Member, crew
from tests.process.brokers import broker_process
from tests.process.children import child
from tests.process.histories import TOPIC

GROUP = "billing"
SECONDS_MAX = 60.0
PARTITIONS = 6


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


async def test_members_come_and_go_partitions_that_stay_keep_their_owner_and_everything_comes_once(
    tmp_path: Path,
) -> None:
    """G5, G10"""
    with trio.fail_after(SECONDS_MAX):
        async with broker_process(tmp_path / "data") as (_, url), goqueue.connect(url) as client:
            await client.create_topic(TOPIC, partitions=PARTITIONS)
            async with crew(url, tmp_path) as members:
                first, second, third = [await started(members, seat) for seat in range(3)]
                owners = [await owners_after(client, first, second)]
                await publish_and_wait(client, members, 1)
                owners.append(await owners_after(client, third))
                await publish_and_wait(client, members, 2)
                await first.leave()
                owners.append(await owners_after(client))
                await publish_and_wait(client, members, 3)
                received = [(each.partition, each.offset) for each in members.receipts()]
    moved = [sum(one != other for one, other in zip(*pair, strict=True)) for pair in pairwise(owners)]
    assert moved == [2, 2]
    assert sorted(received) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(3)]


async def started(members: Crew, seat: int) -> Member:
    member = await members.start(seat)
    await member.ready()
    return member


async def owners_after(client: goqueue.Client, *joining: Member) -> list[str | None]:
    """Of each partition, when these have joined."""
    for member in joining:
        await member.join(topics=TOPIC, group=GROUP, mode="queue")
    return [each.member_id for each in (await client.group(GROUP)).partitions]


async def publish_and_wait(client: goqueue.Client, members: Crew, rounds: int) -> None:
    """One more message to each partition, received by whoever owns it."""
    for partition in range(PARTITIONS):
        await client.publish(TOPIC, b"0.0", partition=partition)
    while len(members.receipts()) < rounds * PARTITIONS:  # noqa: ASYNC110 they are other processes' words
        await trio.sleep(0.01)
