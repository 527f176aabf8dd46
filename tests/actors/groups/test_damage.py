"""Lost and damaged files of groups: no progress is lost without a word, and no message is passed (G5, G13)."""

import logging
from functools import cache
from random import Random

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from goqueue.actors.groups.requests import FindGroup, Join, RemoveGroup, ResetOffsets
from goqueue.actors.node.broker import Broker
from goqueue.core.groups.subscription import Subscription
from goqueue.core.groups.views import DescribedPartition, MemberState
from goqueue.core.ledger.settlements import Action
from goqueue.storage.verification.findings import FindingKind
from goqueue.storage.verification.verify import verify
from goqueue.testing.determinism import run_deterministically
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import broker
from tests.actors.groups.groupstage import group_names
from tests.actors.groups.groupworld import consumer, create, described, partition_of
from tests.actors.partition.test_partition import publish

COMPANION = "/data/logs/orders/0/groups"
LEDGERS = f"{COMPANION}/{0:020d}.log"
COUNT, DONE = 6, 4


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def worked(disk: SimulatedDisk, *, is_orderly: bool = False) -> SimulatedDisk:
    """Two groups have done some of the messages; then nothing happens for a while, and the broker ends."""
    async with broker(disk) as running:
        await create(running, "orders")
        await (await partition_of(running, "orders")).call(publish(*[b"a"] * COUNT))
        for group in ("billing", "audit"):
            who = await consumer(running, "orders", group=group, max_deliveries=8)
            for _ in range(DONE // 2):
                await who.settle("orders", 0, await who.take("orders", count=2), Action.ACK)
        await trio.sleep(15)
        image = disk.kill()
    return disk if is_orderly else image


async def join_at_the_end(running: Broker, group: str = "billing") -> MemberState:
    ref = await running.groups.call(FindGroup(group, create=True))
    settings = {"max_deliveries": 8}
    return await ref.call(Join("ann", "client", Subscription.to("orders"), settings, "latest", 600.0, True, 1))


async def standing(running: Broker, group: str = "billing") -> DescribedPartition:
    await join_at_the_end(running, group)
    [view] = (await described(running, group)).partitions
    return view


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# The ledgers.


@pytest.mark.parametrize("with_claim", [False, True])
async def test_a_ledgers_file_that_is_gone_is_named_and_its_groups_begin_at_the_earliest(
    disk: SimulatedDisk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, with_claim: bool
) -> None:
    """G5, G13: not at the latest, though the next consumer asks for it."""
    disk = await worked(disk)
    disk.remove(LEDGERS)
    if with_claim:
        disk.remove(f"{COMPANION}/recovery-point")
    async with broker(disk) as after:
        view = await standing(after)
        assert (view.committed, view.shown_before) == (0, DONE)
        assert view.progress_lost_at is not None
        assert after.statistics.groups.ledgers_lost == 2
        image = disk.kill()
    assert any("the ledger of group billing on orders/0 is lost" in text for text in warnings(caplog))
    async with broker(image) as again:
        view = await standing(again)
        assert (view.committed, view.shown_before) == (0, DONE), "it is said until an operator has decided"
        group = await again.groups.call(FindGroup("billing"))
        await group.call(ResetOffsets("orders", 0, f"offset:{DONE}", dry_run=False, force=True))
        view = await standing(again)
        assert (view.committed, view.progress_lost_at, view.shown_before) == (DONE, None, None)


async def test_a_group_that_never_began_on_a_partition_begins_where_it_was_told(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """A crash between the register and the partition is no loss."""
    async with broker(disk) as running:
        await create(running, "orders")
        await (await partition_of(running, "orders")).call(publish(b"a", b"b"))
        await join_at_the_end(running)
        image = disk.kill()
    for name in image.list(COMPANION):
        image.remove(f"{COMPANION}/{name}")
    image.remove_directory(COMPANION)
    async with broker(image) as after:
        view = await standing(after)
        assert (view.committed, view.progress_lost_at) == (2, None)


async def test_an_idle_broker_says_once_what_is_durable_and_then_writes_nothing(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with broker(disk) as running:
        await create(running, "orders")
        await consumer(running, "orders")
        await trio.sleep(120)
        size, writes = disk.size(LEDGERS), disk.counts.writes
        await trio.sleep(300)
        assert (disk.size(LEDGERS), disk.counts.writes) == (size, writes)


# What `log verify` says of it.


@pytest.mark.parametrize("is_orderly", [False, True])
async def test_verification_finds_sound_groups_sound(
    disk: SimulatedDisk, autojump_clock: MockClock, is_orderly: bool
) -> None:
    disk = await worked(disk, is_orderly=is_orderly)
    assert (await verify(disk, "/data")).damage() == ()
    async with broker(disk) as running:
        await running.groups.call(RemoveGroup("audit"))
        await standing(running)
        assert (await verify(disk, "/data")).damage() == ()


async def test_verification_names_a_file_that_is_gone_and_what_the_other_has_of_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G13"""
    disk = await worked(disk)
    disk.remove(LEDGERS)
    damage = (await verify(disk, "/data")).damage()
    assert [(finding.kind, finding.path) for finding in damage] == [
        (FindingKind.MISSING_OFFSETS, COMPANION),
        (FindingKind.LOST_LEDGER, COMPANION),
        (FindingKind.LOST_LEDGER, COMPANION),
    ]
    assert "group billing" in f"{damage[1].text}{damage[2].text}"
    async with broker(disk):
        await trio.sleep(15)
    assert (await verify(disk, "/data")).damage() == (), "the start has mended it, and said so"


async def test_verification_names_entries_that_a_cut_took_away(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    disk = await worked(disk)
    disk.cut(LEDGERS, 32)
    damage = (await verify(disk, "/data")).damage()
    assert (damage[0].kind, damage[0].path) == (FindingKind.CUT_SHORT, LEDGERS)


# Whatever is cut or flipped.


@cache
def image_of(is_orderly: bool) -> SimulatedDisk:
    async def made() -> SimulatedDisk:
        return await worked(SimulatedDisk(Random(0)), is_orderly=is_orderly)

    return run_deterministically(made, seed=0).value


async def damage_and_start(disk: SimulatedDisk, path: str, cut_at: int | None, flips: list[int]) -> None:
    size = disk.size(path)
    for place in flips:
        disk.flip_bit(path, place // 8 % size, place % 8)
    if cut_at is not None:
        disk.cut(path, cut_at % size)
    log = Listening()
    with log:
        async with broker(disk) as after:
            assert await group_names(after.groups) == ["audit", "billing"]
            for group in ("audit", "billing"):
                view = await standing(after, group)
                assert view.committed in (0, DONE // 2, DONE), "no message is passed"
                is_told = view.progress_lost_at is not None and any(
                    path in text or COMPANION in text for text in log.texts
                )
                assert view.committed == DONE or is_told, "what was acked is not lost without a word"


class Listening(logging.Handler):
    """Whatever is logged at WARNING meanwhile."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def __enter__(self) -> "Listening":
        logging.getLogger("goqueue").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("goqueue").removeHandler(self)


places = st.integers(0, 2**16)


@settings(max_examples=25)
@given(st.none() | places, st.lists(places, max_size=2), st.booleans())
@example(0, [], False)
def test_whatever_is_cut_or_flipped_no_ack_is_lost_without_a_word(
    cut_at: int | None, flips: list[int], is_orderly: bool
) -> None:
    """G5, G13: and the broker starts."""
    run_deterministically(damage_and_start, image_of(is_orderly).kill(), LEDGERS, cut_at, flips, seed=0)
