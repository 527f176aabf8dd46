"""A machine in memory on which a broker runs, with a disk, a network and a clock that a test controls.

Everything is drawn from the seed. Time is Trio's: with `trio.testing.MockClock(autojump_threshold=0)` a day of
waiting takes a moment, with the ordinary clock it takes a day.

    async with goqueue.testing.machine(seed=7) as machine, machine.client() as client:
        await client.create_topic("orders")
        await machine.crash()       # the power fails: what was not synced may be lost
        await machine.start()       # with what is left
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import trio

from goqueue.client.client import Client, Connecting, connect
from goqueue.environment import Environment, WallClock
from goqueue.http.ports import serving
from goqueue.net.transport.origin import Address
from goqueue.nursery import PlainNursery
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import CAPACITY, SimulatedDisk
from goqueue.testing.faults import NORMAL_SYNC
from goqueue.testing.network import SimulatedNetwork
from goqueue.testing.stream import NO_TIME

HOST, PORT = "127.0.0.1", 7710
BROKER = "broker"


@dataclass(slots=True)
class _Life:
    """One run of the broker."""

    number: int
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    stopping: trio.Event = field(default_factory=trio.Event)
    ended: trio.Event = field(default_factory=trio.Event)


class Machine:
    """Its disk and network outlive the broker, and a test may inspect and change them."""

    url = f"ws://{HOST}:{PORT}"

    def __init__(self, seed: int = 0, *, clock: WallClock | None = None) -> None:
        self._seed = seed
        self.disk = SimulatedDisk(self._generator("disk"))
        self.network = SimulatedNetwork(self._generator("network"))
        self.clock = clock or SimulatedClock()
        self._tasks: trio.Nursery | None = None
        self._life: _Life | None = None
        self._lives = 0

    def _generator(self, name: str) -> Random:
        """Each part has its own generator, so that a change in one does not change the others."""
        return Random(f"{self._seed} {name}")

    def client(self, name: str = "client") -> Connecting:
        """A client for Trio, on a machine of this name. It may start before the broker."""
        return connect(self.url, name=name, network=self.network.machine(name), clock=self.clock)

    # The broker

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Machine"]:
        """Run a broker during the block, and stop it in order. It may be stopped and started in between."""
        async with PlainNursery() as tasks:
            self._tasks = tasks
            try:
                await self.start()
                yield self
                await self.stop()
            finally:
                self._tasks = self._life = None

    @property
    def is_running(self) -> bool:
        return self._life is not None

    async def start(self) -> None:
        """Returns when the broker is ready."""
        if self._tasks is None or self._life is not None:
            raise RuntimeError("the broker runs already" if self._life else "enter the machine first")
        self._lives += 1
        self._life = _Life(self._lives)
        await self._tasks.start(self._serve, self._life)

    async def stop(self) -> None:
        """Stop in order: everything accepted is on disk. Without a running broker it does nothing."""
        life, self._life = self._life, None
        if life is not None:
            life.stopping.set()
            await life.ended.wait()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def kill(self) -> None:
        """As by `kill -9`: nothing that was written is lost, synced or not."""
        await self._end(self.disk.kill())

    async def crash(self) -> None:
        """The power fails. Unsynced writes are kept, lost or torn, as the seed decides."""
        await self._end(self.disk.crash())

    async def _end(self, image: SimulatedDisk) -> None:
        """The disk is copied first, then the network is cut: the broker's last writes and frames reach nobody."""
        life, self._life = self._life, None
        self.network.crash(BROKER)
        if life is not None:
            life.scope.cancel()
            await life.ended.wait()
        self.disk = image

    async def _serve(self, life: _Life, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        chance = self._generator(f"broker {life.number}")
        environment = Environment(self.disk, self.network.machine(BROKER), self.clock, chance)
        try:
            with life.scope:
                async with serving(environment, "/data", listen=Address(HOST, PORT), http=Address(HOST, PORT + 1)):
                    task_status.started()
                    await life.stopping.wait()
        finally:
            life.ended.set()

    # Faults

    def cut(self) -> None:
        """Every connection is reset; clients connect again by themselves."""
        for connection in self.network.live():
            connection.cut()

    def isolate(self) -> None:
        """Bytes to and from the broker vanish without an error, until `heal`."""
        self.network.isolate(BROKER, refuses=False)

    def slow(self, seconds: float) -> None:
        """Everything that is sent takes this long to arrive, in each direction."""
        self.network.conditions.latency = (seconds, seconds)

    def slow_disk(self, seconds: float) -> None:
        """Each sync takes this long, and with it each confirmed publish."""
        self.disk.faults.sync_seconds = (seconds, seconds)

    def fill_disk(self) -> None:
        """No byte is free: publishes are refused, and repeated by the client, until there is room; reads go on."""
        self.disk.capacity -= self.disk.space("/").free

    def free_disk(self) -> None:
        self.disk.capacity = CAPACITY

    def heal(self) -> None:
        """End all of the above. A broker that does not run is not started."""
        self.network.conditions.latency = NO_TIME
        self.disk.faults.sync_seconds = NORMAL_SYNC
        self.free_disk()
        self.network.heal()


@asynccontextmanager
async def machine(seed: int = 0, *, clock: WallClock | None = None) -> AsyncIterator[Machine]:
    """A machine on which a broker runs."""
    async with Machine(seed, clock=clock).running() as made:
        yield made


@asynccontextmanager
async def broker(seed: int = 0, *, clock: WallClock | None = None) -> AsyncIterator[Client]:
    """A client of a broker that exists for this block only."""
    async with machine(seed, clock=clock) as made, made.client() as client:
        yield client
