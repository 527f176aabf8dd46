"""The owner of the registry: what it answers is durable and on the board, and long checks disturb nobody."""

from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.actors.registry.requests import Registered
from goqueue.core.schemas.schema import Reference
from goqueue.errors import ActorDied, DiskFull, IncompatibleSchema, InvalidSchema, RegistryError, Unavailable
from goqueue.testing.disk import SimulatedDisk
from tests.actors.registry.stage import PlainRules, Stage, registry_on
from tests.storage.journals.crashes import leave_room

STRING, NUMBER = '{"type":"string"}', '{"type":"number"}'
OTHER = '{"type":"string","title":"other"}'


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def test_what_was_registered_is_there_after_a_start(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with registry_on(disk) as stage:
        made = await stage.register("orders", STRING)
        assert made.is_new
        await stage.set("orders", level="NONE")
        await stage.register("orders", NUMBER)
        before = stage.board.registry.snapshot()
    async with registry_on(disk) as stage:
        assert stage.board.registry.snapshot() == before
        again = await stage.register("orders", STRING)
        assert (again.is_new, again.version) == (False, made.version)


async def test_an_answer_is_durable_and_on_the_board(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G1"""
    async with registry_on(disk) as stage:
        await stage.register("orders", STRING)
        assert stage.versions("orders") == [(1, 1)]
        image = disk.crash()
        await stage.delete("orders", 1)
        assert stage.versions("orders") == []
        other = disk.crash()
    async with registry_on(image) as stage:
        assert stage.versions("orders") == [(1, 1)]
    async with registry_on(other) as stage:
        assert stage.versions("orders") == []


async def test_the_board_shows_the_schemas_of_topics(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with registry_on(disk) as stage:
        await stage.register("orders", STRING)
        await stage.register("orders-value", '{"type":"string","title":"x"}')
        await stage.register("orders-key", STRING)
        found = stage.board.of("orders")
        assert found is not None
        assert found.values is not None
        assert found.keys is not None
        assert [(each.version, resolved.text) for each, resolved in found.values.versions] == [
            (1, STRING),
            (2, '{"type":"string","title":"x"}'),
        ]
        assert stage.board.of("orders-value") is None
        await stage.delete("orders")
        found = stage.board.of("orders")
        assert found is not None
        assert found.values is None
        await stage.delete("orders-key")
        assert stage.board.of("orders") is None


async def test_a_schema_that_is_not_valid_or_not_compatible_changes_nothing(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    rules = PlainRules()
    async with registry_on(disk, rules) as stage:
        with pytest.raises(InvalidSchema, match="#/title is bad"):
            await stage.register("orders", '{"title":"bad"}')
        await stage.register("orders", STRING)
        with pytest.raises(IncompatibleSchema, match="TYPE_CHANGED at #/type: keep the type") as refused:
            await stage.register("orders", NUMBER)
        assert refused.value.error_code == 409
        assert stage.versions("orders") == [(1, 1)]
        assert rules.compared == [(NUMBER, STRING)]
        await stage.register("orders", NUMBER, force=True)
        assert stage.versions("orders") == [(1, 1), (2, 2)]
        assert stage.board.results == {"invalid_schema": 1, "new": 2, "incompatible_schema": 1}


async def test_a_schema_that_is_known_is_not_checked_again(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    rules = PlainRules()
    async with registry_on(disk, rules) as stage:
        await stage.register("orders", STRING)
        await stage.register("orders", STRING)
        await stage.register("bills", STRING)
        assert rules.checked == [STRING]


async def test_a_long_check_keeps_neither_readers_nor_other_changes_waiting(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    rules = PlainRules(autojump_clock, step_seconds=0.001)
    async with registry_on(disk, rules) as stage:
        await stage.register("orders", STRING)
        await stage.register("bills", STRING)
        rules.steps = 1_000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.register, "orders", OTHER)
            while OTHER not in rules.checked:
                await trio.lowlevel.checkpoint()
            await stage.delete("bills")
            assert stage.versions("bills") == []
            assert stage.versions("orders") == [(1, 1)]
        assert stage.versions("orders") == [(1, 1), (2, 2)]


async def test_a_check_that_takes_too_long_is_given_up(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    rules = PlainRules(autojump_clock, step_seconds=0.001)
    async with registry_on(disk, rules) as stage:
        await stage.register("orders", STRING)
        rules.steps = 2_100
        with pytest.raises(InvalidSchema, match="split it") as refused:
            await stage.register("orders", OTHER)
        assert refused.value.error_code == 42201


async def test_what_changed_during_a_check_is_compared_too(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """The level was NONE when the check began."""
    rules = PlainRules(autojump_clock, step_seconds=0.001)
    async with registry_on(disk, rules) as stage:
        await stage.register("orders", STRING)
        await stage.set("orders", level="NONE")
        rules.steps = 100
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_refused, stage, NUMBER)
            while NUMBER not in rules.checked:
                await trio.lowlevel.checkpoint()
            await stage.set("orders", level="BACKWARD")
        assert rules.compared == [(NUMBER, STRING)]


async def _refused(stage: Stage, text: str) -> None:
    with pytest.raises(IncompatibleSchema):
        await stage.register("orders", text)


async def test_a_stop_gives_up_what_is_being_checked(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G15"""
    rules = PlainRules(autojump_clock, step_seconds=0.001, steps=1_000)
    async with trio.open_nursery() as nursery, registry_on(disk, rules) as stage:
        nursery.start_soon(_unavailable, stage)
        while not rules.checked:
            await trio.lowlevel.checkpoint()
    async with registry_on(disk) as stage:
        assert stage.versions("orders") == []


async def _unavailable(stage: Stage) -> None:
    with pytest.raises(Unavailable, match="the broker is stopping"):
        await stage.register("orders", STRING)


async def test_a_referenced_version_stays(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with registry_on(disk) as stage:
        await stage.register("address", STRING)
        await stage.register("orders", '{"$ref":"address"}', Reference("address", "address", 1))
        with pytest.raises(RegistryError) as refused:
            await stage.delete("address", 1)
        assert refused.value.error_code == 42206


async def test_many_who_register_the_same_schema_at_once_get_one_version(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with registry_on(disk) as stage:
        made = list[Registered]()

        async def register(subject: str) -> None:
            made.append(await stage.register(subject, STRING))

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(register, f"s{number % 2}")
        assert sum(each.is_new for each in made) == 2
        assert {each.version.id for each in made} == {1}
        assert stage.versions("s0") == stage.versions("s1") == [(1, 1)]


async def test_a_snapshot_is_written_while_changes_go_on(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Beyond 1 MiB the log becomes a snapshot; no change is lost by it."""
    rules = PlainRules()
    async with registry_on(disk, rules) as stage:
        await stage.set(level="NONE")
        async with trio.open_nursery() as nursery:
            for number in range(12):
                text = f'{{"title":"{str(number) * 200_000}"}}'
                nursery.start_soon(stage.register, f"s{number}", text)
                nursery.start_soon(stage.register, f"t{number}", STRING)
        before = stage.board.registry.snapshot()
    assert disk.list("/data/logs/__schemas/0")[0] != f"{0:020d}.log", "the first segment is gone"
    async with registry_on(disk) as stage:
        assert stage.board.registry.snapshot() == before
        assert len(list(stage.board.registry)) == 24


async def test_a_full_disk_refuses_a_change_and_the_next_one_succeeds(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with registry_on(disk) as stage:
        await stage.register("orders", STRING)
        leave_room(disk, 10)
        with pytest.raises(DiskFull):
            await stage.register("orders", OTHER)
        with pytest.raises(DiskFull):
            await stage.delete("orders", 1)
        assert stage.versions("orders") == [(1, 1)]
        leave_room(disk, 1_000_000)
        assert (await stage.register("orders", OTHER)).version.version == 2


async def test_a_rule_that_fails_ends_one_life_of_the_owner_and_the_next_has_all_that_was_answered(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """A bug in a rule is a crash: its caller hears of it, and nothing that was answered is lost."""
    rules = PlainRules()
    async with registry_on(disk, rules, restarts=True) as stage:
        await stage.register("orders", STRING)
        with pytest.raises(ActorDied):
            await stage.register("orders", '{"title":7,"type":"string","is":"no text"} ' + rules.fatal)
        assert stage.versions("orders") == [(1, 1)]
        again = await stage.register("orders", OTHER)
        assert (again.version.version, again.version.id) == (2, 2)
        assert stage.versions("orders") == [(1, 1), (2, 2)]


async def test_who_gave_up_is_not_registered_for(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    rules = PlainRules(autojump_clock, step_seconds=0.001, steps=500)
    async with registry_on(disk, rules) as stage:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.register, "orders", STRING)
            while not rules.checked:
                await trio.lowlevel.checkpoint()
            with trio.move_on_after(0.05):
                await stage.register("bills", OTHER)
        await stage.set("last", level="NONE")
        assert stage.versions("orders") == [(1, 1)]
        assert stage.versions("bills") == []
