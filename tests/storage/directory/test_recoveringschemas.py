"""A damaged schema registry: what can be read is kept, and no id or version is given again."""

from random import Random

import pytest
from trio.testing import MockClock

from goqueue.core.records.batch import MAGIC
from goqueue.core.schemas.schema import Reference
from goqueue.errors import UnknownFormat
from goqueue.storage.directory.datadirectory import DataDirectory
from goqueue.storage.directory.recoveringschemas import IDS_PASSED_OVER, VERSIONS_PASSED_OVER
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.gatherers import WatchedDisk
from tests.actors.topics.test_lost import remove_tree
from tests.storage.logs import NOW, mounted
from tests.storage.schemas import FOLDER, NUMBER, STRING, recovered_on, refused_on, segments, stored_on


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def damage(disk: SimulatedDisk, *batches: int) -> None:
    """Flip a bit in each of these batches of the last segment."""
    path = segments(disk)[-1]
    data = bytes(await disk.open(path).read(0, disk.size(path)))
    begins = [at for at in range(len(data)) if data.startswith(MAGIC, at)]
    for number in batches:
        disk.flip_bit(path, begins[number] + 130, 0)


async def three_versions(disk: SimulatedDisk) -> None:
    async with stored_on(disk) as stored:
        for number in range(3):
            await stored.register("orders", f'{{"title":"{number}"}}')


async def test_a_sound_registry_stays_as_it_is(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    await three_versions(disk)
    before = disk.list(FOLDER)
    found, aside = await recovered_on(disk)
    assert (found.is_same, found.faults, aside) == (True, [], None)
    assert disk.list(FOLDER) == before


@pytest.mark.parametrize("lost", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
async def test_what_can_be_read_is_kept_and_no_number_is_given_again(
    disk: SimulatedDisk, autojump_clock: MockClock, lost: tuple[int, ...]
) -> None:
    await three_versions(disk)
    await damage(disk, *lost)
    dry, _ = await recovered_on(disk, write=False)
    assert await refused_on(disk)
    found, aside = await recovered_on(disk)
    assert found.registry.snapshot() == dry.registry.snapshot()
    assert disk.is_directory(f"/data/{aside}/0")
    async with stored_on(disk) as stored:
        subject = stored.registry.find("orders")
        kept = [] if subject is None else [(each.version, each.id) for each in subject.live()]
        assert kept == [(number + 1, number + 1) for number in range(3) if number not in lost]
        version, schema_id = await stored.register("orders", STRING)
        assert version > 3
        assert schema_id > 3
        version, schema_id = await stored.register("orders", '{"title":"0"}')
        assert (version, schema_id) == (1, 1) if 0 not in lost else min(version, schema_id) > 3


async def test_also_when_a_snapshot_is_lost_no_number_is_given_again(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """One lost record may stand for many."""
    async with stored_on(disk) as stored:
        for number in range(30):
            await stored.register("orders", f'{{"title":"{number}"}}')
        await stored.stored.shrink(NOW)
        await stored.register("orders", STRING)
    await damage(disk, 0)
    found, _ = await recovered_on(disk)
    assert found.faults
    async with stored_on(disk) as stored:
        assert stored.registry.find("orders") is None or len(stored.registry.subject("orders").live()) == 1
        version, schema_id = await stored.register("orders", NUMBER)
        assert version > VERSIONS_PASSED_OVER
        assert schema_id > IDS_PASSED_OVER


async def test_a_version_whose_reference_was_lost_is_softly_deleted(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with stored_on(disk) as stored:
        await stored.register("country", STRING)
        await stored.register("address", '{"$ref":"c"}', Reference("c", "country", 1))
        await stored.register("orders", '{"$ref":"a"}', Reference("a", "address", 1))
        await stored.register("orders", NUMBER)
    await damage(disk, 0)
    found, _ = await recovered_on(disk)
    assert [(each.subject, each.version) for each in found.detached] == [("address", 1), ("orders", 1)]
    async with stored_on(disk) as stored:
        assert stored.registry.version("orders").version == 2
        assert stored.registry.version("orders", 1, deleted=True).schema.text == '{"$ref":"a"}'


async def test_an_entry_that_needs_a_lost_one_is_left_out(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Its version was given, and is not given again."""
    async with stored_on(disk) as stored:
        await stored.register("orders", STRING)
        await stored.register("bills", STRING)
        await stored.delete("orders", 1)
        await stored.set("orders", level="FULL")
    await damage(disk, 0)
    found, _ = await recovered_on(disk)
    assert len(found.faults) == 3
    async with stored_on(disk) as stored:
        assert stored.registry.find("bills") is None
        assert (await stored.register("bills", NUMBER))[0] > 1
        assert stored.registry.own_settings("orders").level is not None


async def test_imported_ids_are_passed_over_when_the_operator_names_the_highest(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await three_versions(disk)
    found, _ = await recovered_on(disk, ids_above=70_000)
    assert not found.is_same
    async with stored_on(disk) as stored:
        assert await stored.register("bills", NUMBER) == (1, 70_001)


async def test_a_log_that_is_gone_is_begun_anew_far_above(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    await three_versions(disk)
    disk.make_directory("/data/schemas")
    disk.make_directory("/data/schemas/orders")
    disk.open("/data/schemas/orders/v4711.json", create=True)
    remove_tree(disk, "/data/logs/__schemas")
    found, aside = await recovered_on(disk)
    assert (found.is_same, aside) == (False, None)
    async with stored_on(disk) as stored:
        version, schema_id = await stored.register("orders", NUMBER)
        assert version > 4711
        assert schema_id > IDS_PASSED_OVER


async def test_a_kill_at_any_step_of_a_recovery_can_be_repeated(autojump_clock: MockClock) -> None:
    disk = SimulatedDisk(Random(0))
    await three_versions(disk)
    await damage(disk, 1)
    watched = WatchedDisk(disk, SimulatedDisk.kill)
    watched.images = []
    expected, _ = await recovered_on(watched)  # type: ignore[arg-type]
    images, watched.images = watched.images, None
    assert len(images) > 10
    for image in images:
        await recovered_on(image)
        async with stored_on(image) as stored:
            assert stored.registry.snapshot() == expected.registry.snapshot()


async def test_no_broker_starts_between_the_two_moves_of_a_recovery(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    await three_versions(disk)
    disk.rename("/data/logs/__schemas", "/data/recovered-schemas")
    async with mounted(disk) as volume:
        with pytest.raises(UnknownFormat, match="goqueue recover schemas --data /data --write"):
            await DataDirectory.open(volume, "/data", node="n", random=Random(0))
    found, _ = await recovered_on(disk)
    assert not found.is_same
    async with stored_on(disk) as stored:
        assert len(stored.registry.subject("orders").live()) == 3
