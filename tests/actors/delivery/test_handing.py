"""A delivery that fails costs no attempt: everything that can fail comes before the entry is journaled."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import goqueue
from goqueue.actors.delivery.requests import Taken
from goqueue.actors.delivery.taking import Taking
from goqueue.actors.partition.requests import Produce
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import Flag, encode_record
from goqueue.errors import ActorDied
from goqueue.testing.disk import SimulatedDisk
from tests.actors.delivery.delivering import Desk, desk, handed_out, run

HIDDEN = Flag.DELAYED


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


async def publish_hidden(there: Desk, count: int) -> None:
    """Delayed messages that are due in a day: no group sees them."""
    due = (24 * 3600 * 1_000_000 | 1 << 63).to_bytes(8, "big")
    body = b"".join(encode_record(number, 1, due + b"later", flags=HIDDEN) for number in range(count))
    await there.ref.call(Produce(body, count))


async def test_messages_are_redelivered_though_only_hidden_ones_follow_them(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G5: the redelivery crashed the partition after it was journaled, and the messages lost an attempt."""
    async with desk(disk) as there:
        await there.publish(*[bytes(1_000)] * 40)
        taken = await there.take()
        await publish_hidden(there, 3)
        await there.settle(taken, Action.NACK, delay=0.0)
        assert (await there.take(200)).runs == (run(0, 39, attempt=2),)


async def test_large_messages_are_redelivered_where_no_fresh_one_fits_beside_them(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with desk(disk) as there:
        for _ in range(4):
            await there.publish(bytes(60_000))
        taken = await there.take(3)
        await there.settle(taken, Action.NACK, delay=0.0)
        again = await there.take(200, bytes_max=200_000)
        assert attempts(again) == {0: 2, 1: 2, 2: 2}
        assert handed_out(again) == [0, 1, 2]


# A crash at every line of the way


MANY_SEEDS = 150


class Planted(Exception):
    pass


ROOT = Path(goqueue.__file__).parent
PLACES = tuple(f"{ROOT / room}/" for room in ("core", "actors"))
DECIDING = f"{ROOT / 'actors' / 'delivery' / 'taking.py'}", f"{ROOT / 'core' / 'ledger'}/"
BEGIN, HAND_OUT = Taking._take.__code__, Taking._hand_out.__code__
UNFAILING = Taking._journal_and_answer.__code__
"""It journals, applies what is journaled, and answers: nothing in it may fail."""
NEVER = -1


class Crash:
    """Raises at one of the lines that a request for messages runs through. Notes which of them decide a delivery,
    or note it."""

    def __init__(self, line: int) -> None:
        self._line = line
        self.lines = list[bool]()
        self.where = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        codes = self._codes_to(frame) if event == "call" else []
        if BEGIN not in codes or UNFAILING in codes:
            return None
        is_deciding = HAND_OUT in codes and frame.f_code.co_filename.startswith(DECIDING)
        return partial(self._at_line, is_deciding)

    def _codes_to(self, frame: FrameType) -> list[CodeType]:
        """The functions from this one to the request."""
        codes = list[CodeType]()
        caller = frame if frame.f_code.co_filename.startswith(PLACES) else None
        while caller is not None and BEGIN not in codes:
            codes.append(caller.f_code)
            caller = caller.f_back
        return codes

    def _at_line(self, is_deciding: bool, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and not self.where:
            if len(self.lines) == self._line:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise Planted(self.where)
            self.lines.append(is_deciding)
        return partial(self._at_line, is_deciding)


def lines_to_crash_at(lines: Sequence[bool], random: Random, many: bool) -> list[int]:
    """Those that decide, and some of those that read and plan before."""
    deciding = [line for line, is_deciding in enumerate(lines) if is_deciding]
    others = random.sample(range(len(lines)), 200 if many else 4)
    return sorted({*(deciding if many else random.sample(deciding, 20)), *others})


@contextmanager
def crashing(line: int) -> Iterator[Crash]:
    crash, before = Crash(line), sys.gettrace()
    sys.settrace(crash)
    try:
        yield crash
    finally:
        sys.settrace(before)


async def take_and_crash(disk: SimulatedDisk, settings: LedgerSettings, line: int) -> tuple[Taken | None, Crash]:
    """The answer, if the member got one, and where the partition crashed."""
    taken, crash = None, Crash(NEVER)
    try:
        async with desk(disk, attached=False) as there:
            await there.attach(settings=settings)
            with crashing(line) as crash:
                taken = await there.take(200)
                await trio.testing.wait_all_tasks_blocked()
    except* (Planted, ActorDied):
        assert crash.where
    return taken, crash


def attempts(taken: Taken) -> dict[int, int]:
    return {offset: each.attempt for each in taken.all_runs for offset in range(each.first, each.last + 1)}


WORLDS: dict[str, tuple[LedgerSettings, Sequence[int]]] = {
    "one lane": (LedgerSettings(max_deliveries=2), ()),
    "several lanes": (LedgerSettings(max_deliveries=2), [0, 2, 4] * 14),
    "keys in order": (LedgerSettings(max_deliveries=2, key_order=True), ()),
    "keys in order, several lanes": (LedgerSettings(max_deliveries=2, key_order=True), [0, 2, 4] * 14),
}


@pytest.mark.parametrize("name", WORLDS)
async def test_a_crash_anywhere_on_the_way_of_a_delivery_costs_no_attempt(
    name: str, disk: SimulatedDisk, autojump_clock: MockClock, pytestconfig: pytest.Config
) -> None:
    """G5: a message loses an attempt only by a delivery that its consumer could see."""
    settings, lanes = WORLDS[name]
    async with desk(disk, attached=False) as there:
        await there.attach(settings=settings)
        keys = [b"%d" % (number % 30) for number in range(42)]
        await there.publish(*[bytes(500)] * 40, keys=keys[:40], lanes=lanes[:40])
        taken = await there.take(30)
        await publish_hidden(there, 3)
        await there.publish(b"x", b"y", keys=keys[40:], lanes=lanes[40:])
        await there.settle(taken, Action.NACK, delay=0.0)
    clean, way = await take_and_crash(disk.kill(), settings, NEVER)
    assert clean is not None
    many = pytestconfig.getoption("--seeds") >= MANY_SEEDS
    for line in lines_to_crash_at(way.lines, Random(name), many):
        image = disk.kill()
        seen, crash = await take_and_crash(image, settings, line)
        assert crash.where
        if seen is None:
            async with desk(image, attached=False) as after:
                await after.attach(settings=settings)
                assert attempts(await after.take(200)) == attempts(clean), crash.where
