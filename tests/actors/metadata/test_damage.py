"""Lost and damaged registers of groups, and damaged metadata: no group is lost without a word (G13).

Earlier versions had a register of their own. A damaged one is imported as far as it is sound, and the ledgers name
the other groups. Damaged metadata stops the start, and is rebuilt by a command.
"""

from random import Random

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from goqueue.actors.groups.requests import RemoveGroup
from goqueue.actors.node.broker import Broker
from goqueue.actors.topics.board import described_topics
from goqueue.errors import UnknownFormat
from goqueue.storage.directory.recordlog import RecordLog
from goqueue.storage.directory.topiclist import read_topic_list
from goqueue.storage.verification.findings import FindingKind
from goqueue.storage.verification.verify import verify
from goqueue.testing.determinism import run_deterministically
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import WatchedDisk, broker
from tests.actors.groups.groupstage import group_names
from tests.actors.groups.groupworld import consumer, create, described
from tests.actors.groups.test_damage import DONE, Listening, image_of, places, standing, warnings, worked
from tests.storage.damagedmetadata import cut_last_batch, last_segment, recover
from tests.storage.logs import mounted
from tests.storage.oldregister import LIST, OLD_REGISTER, as_before_the_import


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def check_all_is_there(running: Broker) -> None:
    """Both groups go on where they stood, with their settings."""
    assert await group_names(running.groups) == ["audit", "billing"]
    for group in ("audit", "billing"):
        assert (await standing(running, group)).committed == DONE
        assert (await described(running, group)).settings["max_deliveries"] == 8


async def is_doubtful(disk: SimulatedDisk) -> bool:
    """Whether the next start looks for groups that the metadata may lack."""
    async with mounted(disk) as volume:
        return (await read_topic_list(volume, LIST)).metadata.groups.is_doubtful


# The register of an earlier version


@pytest.mark.parametrize("is_orderly", [False, True])
@pytest.mark.parametrize("damage", ["removed", "emptied", "zeros", "last byte", "cut in half", "with its claim"])
async def test_groups_go_on_where_they_stood_whatever_happened_to_the_register(
    disk: SimulatedDisk,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    damage: str,
    is_orderly: bool,
) -> None:
    """G13: the ledgers have all their progress."""
    disk = await worked(disk, is_orderly=is_orderly)
    await as_before_the_import(disk, is_orderly=is_orderly)
    size = disk.size(OLD_REGISTER)
    match damage:
        case "removed":
            disk.remove(OLD_REGISTER)
        case "with its claim":
            disk.remove(OLD_REGISTER)
            disk.remove(OLD_REGISTER + ".durable")
        case "emptied" | "zeros":
            disk.cut(OLD_REGISTER, 0)
            disk.open(OLD_REGISTER).write(0, [bytes(size if damage == "zeros" else 0)])
        case "last byte":
            disk.flip_bit(OLD_REGISTER, size - 33, 0)
        case _:
            disk.cut(OLD_REGISTER, size // 2)
    async with broker(disk) as after:
        await check_all_is_there(after)
        if damage != "last byte":
            assert after.statistics.groups.adopted
    texts = warnings(caplog)
    assert any("adopted group" in text for text in texts) == (damage != "last byte")
    assert any(OLD_REGISTER in text for text in texts) or damage == "with its claim"
    caplog.clear()
    async with broker(disk) as again:
        await check_all_is_there(again)
    assert not warnings(caplog), "the start before has mended it"
    assert not await is_doubtful(disk)


async def test_groups_are_looked_for_again_if_the_broker_ended_between_import_and_adoption(
    autojump_clock: MockClock,
) -> None:
    disk = await worked(SimulatedDisk(Random(0)))
    await as_before_the_import(disk)
    disk.cut(OLD_REGISTER, 32)
    watched = WatchedDisk(disk, SimulatedDisk.kill)
    watched.images = []
    async with broker(watched):
        images, watched.images = watched.images, None
    imported = next(image for image in images if not image.exists(OLD_REGISTER))
    async with broker(imported) as after:
        await check_all_is_there(after)
        assert after.statistics.groups.adopted == 2


async def test_a_deleted_group_does_not_come_back_with_the_ledgers(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(await worked(disk, is_orderly=True)) as running:
        await running.groups.call(RemoveGroup("audit"))
    await as_before_the_import(disk)
    disk.remove(OLD_REGISTER)
    async with broker(disk) as after:
        assert await group_names(after.groups) == ["billing"]


async def test_verification_compares_a_register_that_is_not_imported_yet_with_the_ledgers(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13"""
    disk = await worked(disk)
    await as_before_the_import(disk)
    assert (await verify(disk, "/data")).damage() == ()
    disk.remove(OLD_REGISTER)
    damage = (await verify(disk, "/data")).damage()
    assert [(finding.kind, finding.path) for finding in damage] == [
        (FindingKind.LOST_JOURNAL, OLD_REGISTER),
        (FindingKind.LOST_GROUP, LIST),
        (FindingKind.LOST_GROUP, LIST),
    ]
    assert "group billing" in f"{damage[1].text}{damage[2].text}"
    async with broker(disk):
        await trio.sleep(15)
    assert (await verify(disk, "/data")).damage() == (), "the start has mended it, and said so"


async def test_a_damaged_register_that_was_imported_is_kept_aside_and_no_damage_any_more(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    disk = await worked(disk)
    await as_before_the_import(disk)
    disk.cut(OLD_REGISTER, 32)
    [first, *_] = (await verify(disk, "/data")).damage()
    assert (first.kind, first.path) == (FindingKind.LOST_ENTRIES, OLD_REGISTER)
    async with broker(disk):
        await trio.sleep(15)
    report = await verify(disk, "/data")
    assert report.damage() == ()
    kept = [finding.path for finding in report.findings() if finding.kind is FindingKind.KEPT_ASIDE]
    assert f"{OLD_REGISTER}.imported" in kept


# The metadata


@pytest.mark.parametrize("is_orderly", [False, True])
@pytest.mark.parametrize("damage", ["last byte", "cut", "last batch", "all of it", "gone"])
async def test_a_damaged_end_stops_the_start_and_the_command_that_it_names_brings_the_groups_back(
    disk: SimulatedDisk,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    damage: str,
    is_orderly: bool,
) -> None:
    """G13: records of the second before the last claim are not taken for a torn tail."""
    disk = await worked(disk, is_orderly=is_orderly)
    path = last_segment(disk)
    match damage:
        case "last byte":
            disk.flip_bit(path, disk.size(path) - 1, 0)
        case "cut":
            disk.cut(path, disk.size(path) - 1)
        case "last batch":
            await cut_last_batch(disk)
        case "all of it":
            disk.cut(path, 0)
        case _:
            disk.remove(path)
    for _ in range(2):
        with pytest.raises(UnknownFormat, match=r"topics and groups.*`goqueue recover topics --data /data`"):
            async with broker(disk):
                pytest.fail("it never started")
    assert (await verify(disk, "/data")).damage()
    assert await recover(disk)
    assert await is_doubtful(disk)
    async with broker(disk) as after:
        await check_all_is_there(after)
        [topic] = await described_topics(after.topics)
        assert topic.name == "orders"
    caplog.clear()
    async with broker(disk) as again:
        await check_all_is_there(again)
    assert not warnings(caplog)
    assert not await is_doubtful(disk)


async def test_an_idle_broker_claims_its_metadata_once_and_then_writes_nothing(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        await consumer(running, "orders")
        await trio.sleep(120)
        writes = disk.counts.writes
        await trio.sleep(300)
        assert disk.counts.writes == writes


async def test_verification_names_a_record_that_a_start_refuses(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    disk = await worked(disk)
    assert (await verify(disk, "/data")).damage() == ()
    async with mounted(disk) as volume:
        log, _ = await RecordLog.open(volume, LIST)
        await log.append([{"v": 1, "kind": "group", "entry": {"v": 2}}], 0)
        await log.close()
    [finding] = (await verify(disk, "/data")).damage()
    assert (finding.kind, finding.path) == (FindingKind.UNKNOWN_FORMAT, LIST)
    with pytest.raises(UnknownFormat, match="goqueue that knows it"):
        async with broker(disk):
            pytest.fail("it never started")


# Whatever is cut or flipped


async def damage_and_start(disk: SimulatedDisk, in_register: bool, cut_at: int | None, flips: list[int]) -> None:
    if in_register:
        await as_before_the_import(disk)
    path = OLD_REGISTER if in_register else last_segment(disk)
    size = disk.size(path)
    for place in flips:
        disk.flip_bit(path, place // 8 % size, place % 8)
    if cut_at is not None:
        disk.cut(path, cut_at % size)
    with Listening() as log:
        try:
            async with broker(disk) as after:
                await check_all_is_there(after)
        except UnknownFormat:
            assert not in_register
            assert await recover(disk)
            async with broker(disk) as after:
                await check_all_is_there(after)
    assert not log.texts or flips or cut_at is not None or in_register


@settings(max_examples=25)
@given(st.booleans(), st.none() | places, st.lists(places, max_size=2), st.booleans())
@example(True, 0, [], True)
@example(False, 0, [], True)
def test_whatever_is_cut_or_flipped_no_group_is_lost(
    in_register: bool, cut_at: int | None, flips: list[int], is_orderly: bool
) -> None:
    """G13: the broker starts, or names the command after which it does."""
    run_deterministically(damage_and_start, image_of(is_orderly).kill(), in_register, cut_at, flips, seed=0)
