"""The schema registry on disk: a crash at any step keeps what was answered, and damage stops the start."""

from random import Random
from typing import Any

import msgpack
import pytest
from trio.testing import MockClock

from goqueue.core.records.batch import MAGIC
from goqueue.core.schemas.registry import SchemaRegistry
from goqueue.errors import DiskFull
from goqueue.storage.directory.pieces import PIECE_BYTES, LongList, pieces_of
from goqueue.storage.directory.schemalist import read_registry
from goqueue.storage.slices import Slices
from goqueue.storage.verification.findings import FindingKind
from goqueue.storage.verification.verify import verify
from goqueue.testing.disk import SimulatedDisk
from tests.storage.journals.crashes import leave_room
from tests.storage.logs import NOW, mounted
from tests.storage.schemas import FOLDER, NUMBER, STRING, Registered, refused_on, segments, stored_on
from tests.storage.snapshotlog.images import images_at

STEPS = ("orders 1", "orders 2", "delete orders", "bills 1", "remove orders", "shrink", "orders 1", "shrink")


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def take(stored: Registered, step: str) -> None:
    match step.split():
        case ["shrink"]:
            await stored.stored.shrink(NOW)
        case ["delete" | "remove" as word, subject]:
            await stored.delete(subject, permanent=word == "remove")
        case [subject, title]:
            await stored.register(subject, f'{{"title":"{title}"}}')


async def test_a_power_cut_at_any_step_leaves_the_registry_before_or_after_the_change(
    autojump_clock: MockClock,
) -> None:
    """G1: what was answered before is there, and so no id or version is given again."""
    cut = 0
    while True:
        cut += 1
        disk = SimulatedDisk(Random(cut))
        images = images_at(disk, cut)
        allowed: list[Any] = []
        async with stored_on(disk) as stored:
            is_open = not images
            for step in STEPS:
                before = stored.registry.snapshot()
                await take(stored, step)
                if images and is_open and not allowed:
                    allowed = [before, stored.registry.snapshot()]
            allowed = allowed or ([stored.registry.snapshot()] if is_open else [before_anything()])
        if not images:
            break
        async with stored_on(images[0]) as stored:
            assert stored.registry.snapshot() in allowed, cut
    assert cut > 60


def before_anything() -> dict[str, Any]:
    return SchemaRegistry().snapshot()


async def test_damage_anywhere_stops_the_start_with_the_command_that_helps(autojump_clock: MockClock) -> None:
    """G13. Also in the newest entry: it is no torn tail, since it was claimed before it was answered."""
    disk = SimulatedDisk(Random(0))
    async with stored_on(disk) as stored:
        for number in range(4):
            await stored.register("orders", f'{{"title":"{number}"}}')
        images = [disk.crash() for _ in range(4)]
    [path] = segments(disk)
    data = bytes(await disk.open(path).read(0, disk.size(path)))
    begins = [at for at in range(len(data)) if data.startswith(MAGIC, at)]
    for image, begin in zip(images, begins, strict=True):
        image.flip_bit(path, begin + 150, 3)
        assert "`goqueue recover schemas --data /data`, which keeps" in await refused_on(image)
        assert FindingKind.DAMAGED_BATCHES in {each.kind for each in (await verify(image, "/data")).damage()}


async def test_an_entry_of_a_newer_goqueue_stops_the_start(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with stored_on(disk) as stored:
        await stored.register("orders")
        await stored.write_unknown()
    assert "start a goqueue that knows it" in await refused_on(disk)
    [finding] = (await verify(disk, "/data")).damage()
    assert (finding.kind, finding.path) == (FindingKind.UNKNOWN_FORMAT, FOLDER)


async def test_on_a_full_disk_nothing_has_changed_and_it_works_again_once_there_is_room(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with stored_on(disk) as stored:
        await stored.register("orders")
        before = stored.registry.snapshot()
        leave_room(disk, 10)
        with pytest.raises(DiskFull):
            await stored.register("orders", NUMBER)
        assert stored.registry.snapshot() == before
        leave_room(disk, 1_000_000)
        assert await stored.register("orders", NUMBER) == (2, 2)
    async with stored_on(disk) as stored:
        assert await stored.register("orders", NUMBER) == (2, 2)


async def test_a_snapshot_of_many_pieces_stands_for_all_before_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with stored_on(disk) as stored:
        for number in range(12):
            await stored.register("orders", f'{{"title":"{f"{number:x}" * (PIECE_BYTES // 2)}"}}')
        await stored.stored.shrink(NOW)
        assert not stored.stored.has_grown
        await stored.register("orders", STRING)
        expected = stored.registry.snapshot()
    assert len(segments(disk)) > 1
    async with stored_on(disk) as stored:
        assert stored.registry.snapshot() == expected
        assert not stored.stored.has_grown, "the size of all its pieces counts"
    async with mounted(disk) as volume:
        assert (await read_registry(volume, FOLDER)).registry.snapshot() == expected


async def test_a_snapshot_that_was_cut_short_leaves_the_entries_before_it(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with stored_on(disk) as stored:
        await stored.register("orders")
        leave_room(disk, PIECE_BYTES)
        pieces = [bytes(PIECE_BYTES // 2)] * 5
        with pytest.raises(DiskFull):
            await stored.stored._log.replace_in_slices(pieces, NOW, Slices())
        leave_room(disk, 10 * PIECE_BYTES)
        assert await stored.register("orders", NUMBER) == (2, 2)
        expected = stored.registry.snapshot()
    async with stored_on(disk) as stored:
        assert stored.registry.snapshot() == expected


def test_pieces_are_what_the_whole_would_be() -> None:
    items = [[number, "x" * 1_000] for number in range(3_000)]
    fields = {"v": 1, "kind": "snapshot"}
    pieces = list(pieces_of(fields, LongList("items", len(items), iter(items)), LongList("none", 0, ())))
    assert b"".join(pieces) == msgpack.packb({**fields, "items": items, "none": []})
    assert len(pieces) == 3


async def test_a_log_that_is_gone_is_not_taken_for_a_new_one(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """The files for people show that there was one: its ids must not be given again."""
    disk.make_directory("/data")
    disk.make_directory("/data/schemas")
    disk.make_directory("/data/schemas/orders")
    disk.open("/data/schemas/orders/v3.json", create=True)
    assert "`goqueue recover schemas --data /data`" in await refused_on(disk)
