"""Groups in a backup and after a restore: they go on where they were, and no message is passed over (G5)."""

import json
from dataclasses import dataclass, field
from random import Random

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.actors.front import topics as servingtopics
from goqueue.client.consuming.consumer import Consumer
from goqueue.core.groups.registry import GroupRegistry
from goqueue.core.metadata.metadata import with_groups
from goqueue.errors import IncompleteCopy, StorageError
from goqueue.storage.backup.backup import MANIFEST
from goqueue.storage.checkedjson import pack
from goqueue.storage.directory.recordlog import RecordLog
from tests.cli.backup.backups import BACKUP, RESTORED, Machine, check_sound, contents
from tests.storage.logs import mounted
from tests.storage.oldregister import OLD_REGISTER, as_before_the_import, as_earlier_backup

BACKUPS = 8
LEASE_SECONDS = 31.0
METADATA, LEDGERS = f"logs/__metadata/0/{0:020d}.log", f"logs/orders/0/groups/{0:020d}.log"


@pytest.fixture
def machine() -> Machine:
    return Machine()


async def fill(client: goqueue.Client, count: int, partitions: int = 1) -> None:
    await client.create_topic("orders", partitions=partitions)
    async with client.producer("orders") as producer:
        await producer.send_many([b"%d" % number for number in range(count)])


async def drained(consumer: Consumer, timeout: float = 2.0) -> list[int]:
    """The offsets of all that come, each acked."""
    offsets: list[int] = []
    while messages := await consumer.receive(timeout=timeout):
        await consumer.ack(messages)
        offsets += [message.offset for message in messages]
    return offsets


async def acked_here_and_there(machine: Machine) -> None:
    """Of ten messages 0, 1, 2, 5 and 7 are acked; then a backup is made."""
    async with machine.both() as client:
        await fill(client, 10)
        async with client.consumer("orders", group="billing", max_deliveries=9) as consumer:
            messages = await consumer.receive(10, timeout=10)
            await consumer.ack([messages[number] for number in (0, 1, 2, 5, 7)])
        await machine.back_up(client)


async def rest_of(machine: Machine, data: str) -> list[int]:
    async with machine.both(data) as client, client.consumer("orders", group="billing") as consumer:
        return sorted(await drained(consumer))


# What is in it


async def test_a_restored_group_goes_on_where_it_was(machine: Machine, autojump_clock: MockClock) -> None:
    await acked_here_and_there(machine)
    await machine.restore()
    for data in (BACKUP, RESTORED):
        await check_sound(machine.disk, data)
        async with machine.both(data) as client:
            group = await client.group("billing")
            assert (group.settings["max_deliveries"], [each.committed for each in group.partitions]) == (9, [3])
        assert await rest_of(machine, data) == [3, 4, 6, 8, 9]


async def test_what_a_member_held_is_its_own_on_the_restored_broker(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G6, G7: a receipt is good while its lease stands."""
    async with machine.both() as client:
        await fill(client, 4)
        async with client.consumer("orders", group="billing") as consumer:
            held = await consumer.receive(2, timeout=10)
            await machine.back_up(client)
    await machine.restore()
    async with machine.both(RESTORED) as client, client.consumer("orders", group="billing") as consumer:
        assert await drained(consumer) == [2, 3]
        await consumer.ack(held)
        assert (await client.group("billing")).partitions[0].committed == 4


async def test_a_group_that_no_partition_knows_and_one_that_was_deleted_are_as_they_were(
    machine: Machine, autojump_clock: MockClock
) -> None:
    async with machine.both() as client:
        await fill(client, 3)
        for group in ("billing", "doomed"):
            async with client.consumer("orders", group=group) as consumer:
                await drained(consumer)
        await client.delete_group("doomed")
        await machine.back_up(client)
    await machine.restore()
    async with machine.both(RESTORED) as client:
        assert [group.name for group in await client.groups()] == ["billing"]
        async with client.consumer("orders", group="doomed") as consumer:
            assert await drained(consumer) == [0, 1, 2]


async def test_a_broker_whose_register_cannot_be_read_is_not_backed_up(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """The copy would not say what it lacks."""
    async with machine.both() as client:
        await fill(client, 3)
        async with client.consumer("orders", group="billing") as consumer:
            await drained(consumer)
    await as_before_the_import(machine.disk, more=[{"v": 2, "kind": "new"}])
    async with machine.both() as client:
        with pytest.raises(StorageError, match="a goqueue that knows it"):
            await machine.back_up(client)
    assert not machine.disk.exists(f"{BACKUP}/{MANIFEST}")


async def test_groups_that_were_adopted_are_backed_up(machine: Machine, autojump_clock: MockClock) -> None:
    async with machine.both() as client:
        await fill(client, 3)
        async with client.consumer("orders", group="billing") as consumer:
            await drained(consumer)
    await as_before_the_import(machine.disk)
    machine.disk.flip_bit(OLD_REGISTER, 50, 1)
    async with machine.both() as client:
        await machine.back_up(client)
        assert [group.name for group in await client.groups()] == ["billing"]
    assert not machine.disk.exists(f"{BACKUP}/groups"), "its metadata has the groups"
    await machine.restore()
    async with machine.both(RESTORED) as client:
        assert [group.name for group in await client.groups()] == ["billing"]


async def test_more_than_an_answer_takes_is_said_and_the_connection_lives(
    machine: Machine, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G14"""
    monkeypatch.setattr(servingtopics, "METADATA_SIZE_MAX", 100)
    async with machine.both() as client:
        await fill(client, 1)
        with pytest.raises(StorageError, match="100 travel at once"):
            await machine.back_up(client)
        assert len(await contents(client)) == 1


# While it is made


@dataclass
class Work:
    """What members were answered, and what they had asked for."""

    acked: set[int] = field(default_factory=set)
    given_up: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    random: Random = field(default_factory=lambda: Random(0))

    async def publish(self, client: goqueue.Client) -> None:
        while True:
            await client.publish("orders", b"x")

    async def consume(self, client: goqueue.Client) -> None:
        async with client.consumer("orders", group="billing") as consumer:
            while True:
                messages = await consumer.receive(8, timeout=10)
                self.random.shuffle(messages)
                for message in messages:
                    self.asked.add(message.offset)
                    if self.random.random() < 0.3:
                        await consumer.reject(message, "poison")
                        self.given_up.add(message.offset)
                    else:
                        await consumer.ack(message)
                        self.acked.add(message.offset)

    def so_far(self) -> "Work":
        return Work(set(self.acked), set(self.given_up), set(self.asked))


async def check_restored(machine: Machine, data: str, before: Work, after: Work) -> None:
    """`before` and `after`: what was answered when the backup began, and what was asked when it was there."""
    async with machine.both(data) as client, client.consumer("orders", group="billing") as consumer:
        end = (await client.topic("orders")).partitions[0].end
        assert (await client.group("billing")).partitions[0].committed <= end
        await trio.sleep(LEASE_SECONDS)
        seen = set(await drained(consumer))
        letters = [int(each.headers["goqueue-dlq-offset"]) for each in await contents(client, "orders.dlq")]
        assert (await client.group("billing")).partitions[0].committed == end
    assert not seen & (before.acked | before.given_up), "an answer from before the backup is forgotten"
    assert len(letters) == len(set(letters)), "a dead letter is there twice"
    assert before.given_up <= set(letters), "a dead letter is missing"
    done = after.asked - after.given_up
    assert seen | set(letters) | done >= set(range(end)), "a message was passed over"
    assert not seen & set(letters)


async def test_backups_under_load_hold_every_answer_from_before_and_skip_nothing(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """G5: acks, dead letters and messages are of one moment, whenever that is."""
    work, taken = Work(), list[tuple[Work, Work]]()
    async with machine.both() as client, trio.open_nursery() as nursery:
        await client.create_topic("orders", partitions=1)
        nursery.start_soon(work.publish, client)
        nursery.start_soon(work.consume, client)
        for number in range(BACKUPS):
            await trio.sleep(0.023)
            before = work.so_far()
            await machine.back_up(client, f"/backups/{number}")
            taken.append((before, work.so_far()))
        nursery.cancel_scope.cancel()
    assert len(taken[-1][0].given_up) > len(taken[0][0].given_up) > 0
    for number, (before, after) in enumerate(taken):
        await machine.restore(f"/backups/{number}", f"/restored/{number}")
        await check_sound(machine.disk, f"/restored/{number}")
        await check_restored(machine, f"/restored/{number}", before, after)


# Restoring


async def test_a_backup_that_was_served_is_restored_as_it_was_made(
    machine: Machine, autojump_clock: MockClock
) -> None:
    """Acks that the served backup was given do not pass messages over in what is restored from it."""
    await acked_here_and_there(machine)
    assert await rest_of(machine, BACKUP) == [3, 4, 6, 8, 9]
    assert await rest_of(machine, BACKUP) == []
    await machine.restore()
    assert await rest_of(machine, RESTORED) == [3, 4, 6, 8, 9]


@pytest.mark.parametrize("is_served", [False, True])
async def test_a_backup_of_an_earlier_version_is_restored_with_its_groups(
    machine: Machine, autojump_clock: MockClock, is_served: bool
) -> None:
    """Its groups are in a journal, which a broker that served the backup has imported."""
    await acked_here_and_there(machine)
    await as_earlier_backup(machine.disk, BACKUP)
    if is_served:
        assert await rest_of(machine, BACKUP) == [3, 4, 6, 8, 9]
        assert machine.disk.list(f"{BACKUP}/groups") == ["registry.imported"]
    await machine.restore()
    assert await rest_of(machine, RESTORED) == [3, 4, 6, 8, 9]


@pytest.mark.parametrize("damage", ["gone", "flipped"])
async def test_a_backup_of_an_earlier_version_with_a_damaged_register_is_not_restored(
    machine: Machine, autojump_clock: MockClock, damage: str
) -> None:
    await acked_here_and_there(machine)
    await as_earlier_backup(machine.disk, BACKUP)
    if damage == "gone":
        machine.disk.remove(f"{BACKUP}/groups/registry")
    else:
        machine.disk.flip_bit(f"{BACKUP}/groups/registry", 50, 1)
    with pytest.raises(IncompleteCopy, match="use another backup"):
        await machine.restore()


async def test_groups_that_a_served_backup_got_later_are_not_restored(
    machine: Machine, autojump_clock: MockClock
) -> None:
    await acked_here_and_there(machine)
    async with machine.both(BACKUP) as client:
        async with client.consumer("orders", group="later") as consumer:
            await consumer.receive(1, timeout=5)
        await client.delete_group("billing")
    await machine.restore()
    assert await rest_of(machine, RESTORED) == [3, 4, 6, 8, 9]
    async with machine.both(RESTORED) as client:
        assert [group.name for group in await client.groups()] == ["billing"]


async def test_a_backup_whose_metadata_were_rewritten_with_other_groups_is_not_restored(
    machine: Machine, autojump_clock: MockClock
) -> None:
    await acked_here_and_there(machine)
    async with mounted(machine.disk) as volume:
        log, found = await RecordLog.open(volume, f"{BACKUP}/logs/__metadata/0")
        [snapshot] = found.records
        assert isinstance(snapshot, dict)
        await log.replace(with_groups(snapshot, GroupRegistry().snapshot()), 0)
        await log.close()
    with pytest.raises(IncompleteCopy, match="use another backup"):
        await machine.restore()


@pytest.mark.parametrize("file", [METADATA, LEDGERS])
@pytest.mark.parametrize("is_removed", [False, True])
async def test_a_backup_whose_groups_are_damaged_or_missing_is_not_restored(
    machine: Machine, autojump_clock: MockClock, file: str, is_removed: bool
) -> None:
    await acked_here_and_there(machine)
    if is_removed:
        machine.disk.remove(f"{BACKUP}/{file}")
    else:
        machine.disk.flip_bit(f"{BACKUP}/{file}", 50, 1)
    with pytest.raises(IncompleteCopy, match="use another backup"):
        await machine.restore()


async def test_a_backup_from_before_there_were_groups_is_restored(
    machine: Machine, autojump_clock: MockClock
) -> None:
    await acked_here_and_there(machine)
    path = f"{BACKUP}/{MANIFEST}"
    fields = json.loads(await machine.disk.open(path).read(0, machine.disk.size(path)))
    for part in (fields, *fields["partitions"]):
        part.pop("groups_crc32c", None)
        part.pop("ledgers_crc32c", None)
    fields.pop("crc32c")
    machine.disk.cut(path, 0)
    machine.disk.open(path).write(0, [pack(fields)])
    await machine.restore()
    async with machine.both(RESTORED) as client:
        assert await client.groups() == []
        assert len(await contents(client)) == 10
