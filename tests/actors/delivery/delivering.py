"""A partition with its groups and one who listens, for the tests in the files beside this one."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count, zip_longest
from random import Random

import trio

from goqueue.actors.delivery.requests import (
    AttachGroup,
    AwaitDeliverable,
    DeadLettersWait,
    LedgerFacts,
    LedgerView,
    SettleRuns,
    Take,
    Taken,
)
from goqueue.actors.partition.board import board_of
from goqueue.actors.partition.partition import Partition
from goqueue.actors.partition.requests import Produce
from goqueue.actors.runtime.actor import Actor
from goqueue.actors.runtime.child import ChildSpec
from goqueue.actors.runtime.handlers import hears
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.runtime.root import running
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.config import LogConfig
from goqueue.core.ledger.attempts import AttemptRun
from goqueue.core.ledger.settings import LedgerSettings
from goqueue.core.ledger.settlements import Action
from goqueue.core.records.record import encode_record
from goqueue.storage.log.volume import Volume
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks, Priority
from tests.storage.logs import DIRECTORY, records_in

GROUP, OTHER = "billing", "audit"
COMPANION = f"{DIRECTORY}/groups"
LEDGERS = f"{COMPANION}/{0:020d}.log"
_SEEDS = count()
"""Each process draws other numbers than the one before."""


class Listener(Actor):
    def __init__(self, heard: list[tuple[str, int]]) -> None:
        self._heard = heard

    @hears(DeadLettersWait)
    async def dead_letters_wait(self, _: str, news: DeadLettersWait) -> None:
        self._heard.append((news.topic, news.partition))


class Desk:
    """Members of a group at a partition. Unless said otherwise it is ann, of the group `billing`."""

    def __init__(
        self, ref: ActorRef, listener: ActorRef, heard: list[tuple[str, int]], counts: GroupCounts
    ) -> None:
        self.ref = ref
        self.counts = counts
        self.listener = listener
        self.heard = heard

    async def attach(
        self,
        group: str = GROUP,
        *,
        group_id: int = 7,
        start: str = "earliest",
        member: str | None = "ann",
        generation: int = 1,
        is_shared: bool = False,
        settings: LedgerSettings | None = None,
    ) -> None:
        settings = settings or LedgerSettings()
        await self.ref.call(
            AttachGroup(group, group_id, settings, start, self.listener, member, generation, is_shared)
        )

    async def publish(
        self, *values: bytes, acks: Acks = Acks.ALL, keys: Sequence[bytes] = (), lanes: Sequence[int] = ()
    ) -> int:
        pairs = enumerate(zip_longest(values, keys, lanes))
        body = b"".join(
            encode_record(number, 1, value, key=key, priority=Priority.NORMAL if lane is None else lane)
            for number, (value, key, lane) in pairs
        )
        return (await self.ref.call(Produce(body, len(values), acks=acks))).base_offset

    async def take(
        self,
        messages: int = 100,
        member: str = "ann",
        group: str = GROUP,
        *,
        generation: int = 1,
        bytes_max: int = 1_000_000,
        visibility: float = 30.0,
        is_busy: bool = False,
        instance: int = 0,
        tells_begun: bool = False,
    ) -> Taken:
        return await self.ref.call(
            Take(group, member, generation, messages, bytes_max, visibility, is_busy, None, instance, tells_begun)
        )

    async def wait(
        self, seconds: float = 30.0, member: str = "ann", group: str = GROUP, *, instance: int = 0
    ) -> float:
        """How long it took until there was something."""
        begin = trio.current_time()
        await self.ref.call(AwaitDeliverable(group, member, begin + seconds, instance))
        return trio.current_time() - begin

    async def settle(
        self,
        taken: Taken,
        action: Action = Action.ACK,
        runs: Sequence[AttemptRun] | None = None,
        *,
        group: str = GROUP,
        delay: float | None = None,
        reason: str = "",
    ) -> tuple[AttemptRun, ...]:
        """Those that are stale."""
        settled = taken.all_runs if runs is None else tuple(runs)
        return await self.ref.call(SettleRuns(group, taken.nonce, action, settled, delay, reason))

    async def view(self, group: str = GROUP) -> LedgerView:
        view = await (await board_of(self.ref)).ledgers.view(group)
        assert view is not None
        return view

    async def facts(self, group: str = GROUP) -> LedgerFacts:
        facts = await (await board_of(self.ref)).ledgers.facts(group)
        assert facts is not None
        return facts

    async def committed(self, group: str = GROUP) -> int:
        return (await self.view(group)).progress.committed


def run(first: int, last: int | None = None, attempt: int = 1) -> AttemptRun:
    return AttemptRun(first, first if last is None else last, attempt)


def offsets(taken: Taken) -> list[int]:
    return [offset for run in taken.all_runs for offset in range(run.first, run.last + 1)]


def handed_out(taken: Taken) -> list[int]:
    """As a client that knows sets shows them: those that are named, in the order of the data."""
    named = offsets(taken)
    shown = [offset for offset in held(taken) if offset in named]
    assert sorted(shown) == sorted(named), "each message is there once"
    return shown


def held(taken: Taken) -> list[int]:
    """The offsets of all records in the data."""
    return [record.offset for record in records_in(taken.data)]


def values(taken: Taken) -> list[bytes]:
    """What a client shows: the records that the runs name, in order."""
    named = offsets(taken)
    found = [record for record in records_in(taken.data) if record.offset in named]
    assert [record.offset for record in found] == named
    return [record.value for record in found]


@asynccontextmanager
async def desk(
    disk: SimulatedDisk,
    config: LogConfig | None = None,
    clock: SimulatedClock | None = None,
    *,
    attached: bool = True,
) -> AsyncIterator[Desk]:
    random = Random(next(_SEEDS))
    volume, clock, heard = Volume(disk), clock or SimulatedClock(), list[tuple[str, int]]()
    counts = GroupCounts()

    spec = ChildSpec("listener", lambda: Listener(heard))

    def factory() -> Partition:
        return Partition(
            volume,
            clock,
            DIRECTORY,
            config or LogConfig(),
            disk_free_min=0,
            random=random,
            counts=counts,
            dead_letters=spec.ref,
        )

    async with trio.open_nursery() as nursery:
        await nursery.start(volume.run)
        async with running(spec) as listener, running(ChildSpec("partition", factory)) as ref:
            there = Desk(ref, listener, heard, counts)
            if attached:
                await there.attach()
            yield there
        nursery.cancel_scope.cancel()
