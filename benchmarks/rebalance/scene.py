"""The run: consumers join one after the other, leave, come back, are killed and are started again, while somebody
publishes to every partition all the time. What happened when, and what everybody received."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from pathlib import Path
from typing import NamedTuple

import trio

import goqueue
from benchmarks.commandline import Size
from benchmarks.peers.workload import Wrong
from benchmarks.rebalance.crew import Crew, Member, crew
from benchmarks.rebalance.receipts import Receipt
from goqueue.core.groups.member import RECONNECT_SECONDS

STATIC_ID = "static"
LOOK_SECONDS = 0.1
SETTLE_SECONDS_MAX = 60.0
GRACE_SECONDS = RECONNECT_SECONDS
"""So long a group waits for a member whose connection ended."""


@dataclass(frozen=True, slots=True)
class Sizes:
    partitions: int = 100
    seats: int = 10
    per_second: float = 10.0
    """Messages to each partition."""
    apart: float = 1.0
    """Seconds between two that join at the beginning."""
    rest: float = 5.0
    """Seconds after everything else that happens."""
    visibility: float = 8.0
    kills: bool = True
    """Whether one is killed that does not come back: the group waits 5 seconds for it, whatever the sizes."""
    many: int = 1_000
    rounds: int = 5


SIZES: dict[Size, Sizes] = {
    "full": Sizes(),
    "quick": Sizes(partitions=30, seats=5, apart=0.5, rest=2.0, kills=False, many=300, rounds=2),
    "tiny": Sizes(partitions=4, seats=2, apart=0.1, rest=0.15, visibility=0.5, kills=False, many=8, rounds=1),
}


class Kind(Enum):
    STEADY = "steady"
    JOIN = "join"
    LEAVE = "leave"
    KILL = "kill"
    RESTART = "restart"
    END = "end"


class Event(NamedTuple):
    at: float
    kind: Kind
    seat: int | None = None
    """Who joined, left, was killed or started again."""


@dataclass(slots=True)
class Run:
    mode: str
    partitions: int
    per_second: float
    events: list[Event] = field(default_factory=list)
    """The last one is the end."""
    receipts: list[Receipt] = field(default_factory=list)
    published: list[int] = field(default_factory=list)
    """Messages of each partition."""

    def note(self, kind: Kind, seat: int | None = None) -> None:
        self.events.append(Event(time.monotonic(), kind, seat))

    def windows(self) -> Iterator[tuple[Event, float]]:
        """Each event and when the next one came."""
        for event, following in zip(self.events, self.events[1:], strict=False):
            yield event, following.at


class Scene:
    """Seats are numbered from 0; the last one is the static member's."""

    def __init__(self, client: goqueue.Client, members: Crew, mode: str, sizes: Sizes) -> None:
        self._client = client
        self._crew = members
        self._sizes = sizes
        self._seated: dict[int, Member] = {}
        self.run = Run(mode, sizes.partitions, sizes.per_second)

    async def play(self, tell: Callable[[str], None]) -> None:
        tell(f"{self.run.mode}: consumers are started")
        await self._client.create_topic(self.run.mode, partitions=self._sizes.partitions)
        first, second, *_ = members = await self._started(range(self._sizes.seats))
        again, *another = await self._started([self._last] + [second.seat] * self._sizes.kills)
        async with self._publishing():
            tell(f"{self.run.mode}: {self._sizes.seats} join")
            for member in members:
                await self._join(member, self._sizes.apart)
            tell(f"{self.run.mode}: nothing happens")
            await self._nothing()
            tell(f"{self.run.mode}: one leaves and comes back")
            await self._leave(first)
            await self._join(first, self._sizes.rest)
            for replacement in another:
                tell(f"{self.run.mode}: one is killed, another one comes")
                await self._kill(second)
                await self._join(replacement, self._sizes.rest)
            tell(f"{self.run.mode}: one is killed and started again")
            await self._restart(again)
        await self._take_down()

    @property
    def _last(self) -> int:
        return self._sizes.seats - 1

    async def _started(self, seats: Iterable[int]) -> list[Member]:
        """All at once, and before anything is measured."""
        members = [await self._crew.start(seat) for seat in seats]
        for member in members:
            await member.ready()
        return members

    # Somebody publishes

    @asynccontextmanager
    async def _publishing(self) -> AsyncIterator[None]:
        """What was published is confirmed when the block ends."""
        async with self._client.producer(self.run.mode) as producer, trio.open_nursery() as nursery:
            nursery.start_soon(self._publish, producer)
            yield
            nursery.cancel_scope.cancel()

    async def _publish(self, producer: goqueue.Producer) -> None:
        """A message to each partition at a time; its value is the time."""
        begin = trio.current_time()
        for rounds in count(1):
            for partition in range(self._sizes.partitions):
                producer.send_nowait(b"%.6f" % time.monotonic(), partition=partition)
            await trio.sleep_until(begin + rounds / self._sizes.per_second)

    # What happens

    async def _nothing(self) -> None:
        self.run.note(Kind.STEADY)
        await self._watch(self._sizes.rest)

    async def _join(self, member: Member, seconds: float) -> None:
        self.run.note(Kind.JOIN, member.seat)
        await self._seat(member)
        await self._watch(seconds)

    async def _leave(self, member: Member) -> None:
        self.run.note(Kind.LEAVE, member.seat)
        await self._seated.pop(member.seat).leave()
        await self._watch(self._sizes.rest)

    async def _kill(self, member: Member) -> None:
        self.run.note(Kind.KILL, member.seat)
        self._seated.pop(member.seat).kill()
        await self._watch(GRACE_SECONDS + self._sizes.rest)

    async def _restart(self, again: Member) -> None:
        self.run.note(Kind.RESTART, again.seat)
        self._seated[again.seat].kill()
        await self._seat(again)
        await self._watch(self._sizes.rest)
        self.run.note(Kind.END)

    async def _seat(self, member: Member) -> None:
        mode = self.run.mode
        of_queues = {"visibility_timeout": self._sizes.visibility} if mode == "queue" else {}
        static = {"member_id": STATIC_ID} if member.seat == self._last else {}
        await member.join(topics=mode, group=mode, mode=mode, **of_queues, **static)
        self._seated[member.seat] = member

    # How it ends

    async def _watch(self, seconds: float) -> None:
        await trio.sleep(seconds)
        await _until(self._is_settled, "settled")

    async def _is_settled(self) -> bool:
        """By the broker's own word: nobody has yet to let go, and nobody has two more than another."""
        group = await self._client.group(self.run.mode)
        shares = Counter(each.member_id for each in group.partitions).values()
        return group.state == "stable" and len(shares) == len(self._seated) and max(shares) - min(shares) <= 1

    async def _take_down(self) -> None:
        self.run.published = [each.end for each in (await self._client.topic(self.run.mode)).partitions]
        await _until(self._is_all_received, "received everything")
        for member in self._seated.values():
            await member.leave()

    async def _is_all_received(self) -> bool:
        self.run.receipts = self._crew.receipts()
        return len({(each.partition, each.offset) for each in self.run.receipts}) == sum(self.run.published)


async def _until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    with trio.move_on_after(SETTLE_SECONDS_MAX):
        while True:
            if await holds():
                return
            await trio.sleep(LOOK_SECONDS)
    raise Wrong(f"the group has not {what} within {SETTLE_SECONDS_MAX:g} s")


async def play(url: str, folder: Path, mode: str, sizes: Sizes, tell: Callable[[str], None]) -> Run:
    """Topic and group bear the name of the mode."""
    async with goqueue.connect(url) as client, crew(url, folder) as members:
        scene = Scene(client, members, mode, sizes)
        await scene.play(tell)
    return scene.run
