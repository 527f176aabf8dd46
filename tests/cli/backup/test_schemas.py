"""The schema registry in a backup: that of the same moment as the topics, with all ids, versions and settings."""

import json

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.errors import IncompleteCopy
from goqueue.storage.backup.backup import MANIFEST
from goqueue.storage.checkedjson import pack
from goqueue.storage.directory.pieces import PIECE_BYTES
from tests.cli.backup.backups import BACKUP, RESTORED, Machine, check_sound
from tests.storage.logs import mounted

LOG = f"{BACKUP}/logs/__schemas/0/{0:020d}.log"
STRING, NUMBER = '{"type":"string"}', '{"type":"number"}'


@pytest.fixture
def machine() -> Machine:
    return Machine()


async def filled(client: goqueue.Client) -> None:
    """Three versions of which two are gone in different ways, a key schema and levels."""
    await client.set_compatibility("orders", "NONE")
    for text in (STRING, NUMBER, '{"type":"integer"}'):
        await client.register_schema("orders", text)
    await client.delete_schema("orders", 1)
    await client.delete_schema("orders", 1, permanent=True)
    await client.delete_schema("orders", 2)
    await client.register_schema("orders-key", STRING)
    await client.set_compatibility(None, "FULL")


async def check_it_goes_on(client: goqueue.Client) -> None:
    found = await client.schema("orders")
    assert (found.version, found.id) == (3, 3)
    key = await client.schema("orders-key")
    assert (key.version, key.id) == (1, 4), "the id of the schema that was removed is not given again"
    again = await client.register_schema("orders", NUMBER)
    assert (again.version, again.id) == (4, 2), "it was softly deleted"
    new = await client.register_schema("bills", '{"type":"boolean"}')
    assert (new.version, new.id) == (1, 5)
    with pytest.raises(goqueue.IncompatibleSchema):
        await client.register_schema("bills", NUMBER)


async def test_a_restore_brings_back_ids_versions_and_levels(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await filled(client)
        before = await client.schema("orders")
        await machine.back_up(client)
    await machine.restore()
    for data in (BACKUP, RESTORED):
        await check_sound(machine.disk, data)
        async with machine.both(data) as client:
            assert await client.schema("orders") == before
            await check_it_goes_on(client)


async def test_what_a_broker_added_to_the_backup_is_not_restored(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await filled(client)
        await machine.back_up(client)
    async with machine.both(BACKUP) as client:
        await client.register_schema("later", STRING)
    await machine.restore()
    async with machine.both(RESTORED) as client:
        assert await client.subjects() == ["orders", "orders-key"]


async def test_a_large_registry_travels_in_pieces(machine: Machine, autojump_clock: MockClock) -> None:
    size = PIECE_BYTES * 9 // 10
    async with machine.both() as client:
        await client.set_compatibility(None, "NONE")
        for number in range(5):
            await client.register_schema("orders", json.dumps({"title": f"{number}" * size}))
        await machine.back_up(client)
    await machine.restore()
    async with machine.both(RESTORED) as client:
        found = [await client.schema("orders", version) for version in range(1, 6)]
        assert [len(each.schema) > size for each in found] == [True] * 5


async def test_an_empty_registry_keeps_its_settings(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.register_schema("orders", STRING)
        await client.delete_schema("orders")
        await client.delete_schema("orders", permanent=True)
        await machine.back_up(client)
    await machine.restore()
    async with machine.both(RESTORED) as client:
        again = await client.register_schema("orders", STRING)
        assert (again.version, again.id) == (2, 2)


async def test_the_registry_is_of_the_same_moment_as_the_topics(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """B18: every schema that a message of the copy names is in the copy."""
    async with machine.both() as client:
        await client.create_topic("orders", partitions=1, config={"schema_validation": "off"})
        await client.set_compatibility(None, "NONE")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_register_and_publish, client)
            for number in range(8):
                await trio.sleep(0.01)
                await machine.back_up(client, f"/backup-{number}")
            nursery.cancel_scope.cancel()
    counts = []
    for number in range(8):
        async with machine.both(f"/backup-{number}") as client:
            named = [int(each.headers["schema-id"]) for each in await _messages(client)]
            counts.append(len(named))
            for schema_id in named:
                await client.schema_by_id(schema_id)
    assert counts[-1] > counts[0]


async def _register_and_publish(client: goqueue.Client) -> None:
    number = 0
    while True:
        number += 1
        made = await client.register_schema("others", json.dumps({"title": str(number)}))
        await client.publish("orders", b"x", headers={"schema-id": b"%d" % made.id})


async def _messages(client: goqueue.Client) -> list[goqueue.Message]:
    async with client.read("orders", end="latest") as reader:
        return [each async for each in reader]


async def test_a_backup_of_an_earlier_version_restores(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await client.create_topic("orders")
        await machine.back_up(client)
    await _forget_in_manifest(machine)
    machine.disk.remove(LOG)
    await machine.restore()
    async with machine.both(RESTORED) as client:
        assert await client.subjects() == []
        assert [topic.name for topic in await client.topics()] == ["orders"]


async def _forget_in_manifest(machine: Machine) -> None:
    async with mounted(machine.disk) as volume:
        fields = json.loads(await volume.read_whole(f"{BACKUP}/{MANIFEST}", 2**20))
        del fields["schemas_crc32c"], fields["crc32c"]
        await volume.replace(BACKUP, MANIFEST, [pack(fields)])


async def test_a_damaged_registry_is_not_restored(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await filled(client)
        await machine.back_up(client)
    machine.disk.flip_bit(LOG, machine.disk.size(LOG) - 20, 0)
    with pytest.raises(IncompleteCopy, match="__schemas"):
        await machine.restore()
