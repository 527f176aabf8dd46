"""A network in memory: listeners, connections, and their faults.

`SimulatedNetwork` is a whole network. `machine(name)` is one machine's view of it, which a broker or a client gets
as its network; tests without names of machines use the network itself. Without a generator and conditions it is
perfect: bytes arrive at once, and nothing is lost that a test does not cut.

Faults, all of them by a test's call and drawn from the generator given at the start:

- a connection is cut: both ends see a reset, at once or each at its own time, also in the middle of a frame
- one direction goes silent: its bytes vanish until the connection is cut
- an end reads slowly, so that the other end has to wait
- a machine is isolated: its connections go silent, new ones are refused or hang until it is back
- a machine crashes: its listeners are gone and its connections cut; bytes that had not arrived are lost
"""

import errno
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import trio

from goqueue.testing.faults import Seconds
from goqueue.testing.stream import Conditions, Pipe, SimulatedStream

CONNECT_SECONDS_MAX = 127.0
"""The time for which Linux tries to connect."""
BACKLOG_MAX = 128
BURNT_SECONDS = 0.001
"""The time between the last byte and the reset."""
ANYWHERE = "anywhere"
"""The machine of callers that name none."""


class SimulatedListener(trio.abc.Listener[SimulatedStream]):
    def __init__(self, machine: str) -> None:
        self.machine = machine
        self.is_open = True
        self._arrived: deque[SimulatedStream] = deque()
        self._changed = trio.lowlevel.ParkingLot()

    @property
    def has_room(self) -> bool:
        return self.is_open and len(self._arrived) < BACKLOG_MAX

    def take(self, stream: SimulatedStream) -> None:
        self._arrived.append(stream)
        self._changed.unpark()

    async def accept(self) -> SimulatedStream:
        await trio.lowlevel.checkpoint()
        while self.is_open and not self._arrived:
            await self._changed.park()
        if not self.is_open:
            raise trio.ClosedResourceError("the listener is closed")
        return self._arrived.popleft()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Connections that are not yet accepted are closed."""
        self.is_open = False
        while self._arrived:
            self._arrived.popleft().close()
        self._changed.unpark_all()


class SimulatedConnection:
    """Both ends of a connection, and its faults."""

    def __init__(self, client_machine: str, server_machine: str, random: Random, conditions: Conditions) -> None:
        self.machines = (client_machine, server_machine)
        self._random = random
        self._to_server, self._to_client = Pipe(random, conditions), Pipe(random, conditions)
        self.client = SimulatedStream(self._to_client, self._to_server, random)
        self.server = SimulatedStream(self._to_server, self._to_client, random)

    @property
    def is_over(self) -> bool:
        return all(end.is_closed or end.broken_at <= trio.current_time() for end in (self.client, self.server))

    def cut(self, client_after: float = 0.0, server_after: float = 0.0) -> None:
        """Each end sees the reset after this number of seconds. Bytes that are sent from now on vanish."""
        now = trio.current_time()
        for end, after in ((self.client, client_after), (self.server, server_after)):
            end.broken_at = min(end.broken_at, now + after)
        self.silence(to_server=True, to_client=True)
        self.client.wake()
        self.server.wake()

    def silence(self, *, to_server: bool = False, to_client: bool = False) -> None:
        """Bytes of this direction vanish from now on, without an error."""
        self._to_server.is_silent |= to_server
        self._to_client.is_silent |= to_client

    def cut_after(self, *, to_server: int | None = None, to_client: int | None = None) -> None:
        """Cut once this number of bytes has passed in this direction, also in the middle of a frame."""
        for pipe, count in ((self._to_server, to_server), (self._to_client, to_client)):
            if count is not None:
                pipe.fuse_bytes, pipe.on_burnt = max(1, count), self._burn

    def _burn(self) -> None:
        """The part that passed arrives before the reset does."""
        arrival = max(self._to_server.arrival(), self._to_client.arrival()) - trio.current_time()
        self.cut(arrival + BURNT_SECONDS, arrival + BURNT_SECONDS)

    def slow_down(self, pause_seconds: Seconds, sip_bytes: int, *, client: bool = True) -> None:
        end = self.client if client else self.server
        end.pause_seconds, end.sip_bytes = pause_seconds, sip_bytes

    def heal(self) -> None:
        self._to_server.fuse_bytes = self._to_client.fuse_bytes = None
        if self._to_server.is_silent or self._to_client.is_silent:
            self.cut()

    def lose_words_of(self, machine: str) -> None:
        """Bytes that this machine has sent and that have not arrived are lost."""
        (self._to_server if self.machines[0] == machine else self._to_client).lose_all()


@dataclass(slots=True)
class Isolation:
    refuses: bool
    """New connections are refused at once; else they hang."""
    over: trio.Event = field(default_factory=trio.Event)


class SimulatedNetwork:
    def __init__(self, random: Random | None = None, conditions: Conditions | None = None) -> None:
        self._random = random or Random(0)
        self.conditions = conditions or Conditions()
        self._listeners: dict[tuple[str, int], SimulatedListener] = {}
        self._live: list[SimulatedConnection] = []
        self._isolated: dict[str, Isolation] = {}
        self.connections: list[SimulatedStream] = []
        """The clients' ends, in the order in which they connected."""

    def machine(self, name: str) -> "NetworkMachine":
        return NetworkMachine(name, self)

    async def connect(self, host: str, port: int) -> SimulatedStream:
        return await self.connect_from(ANYWHERE, host, port)

    async def listen(self, host: str, port: int) -> Sequence[SimulatedListener]:
        return await self.listen_on(ANYWHERE, host, port)

    async def listen_on(self, machine: str, host: str, port: int) -> Sequence[SimulatedListener]:
        await trio.lowlevel.checkpoint()
        before = self._listeners.get((host, port))
        if before is not None and before.is_open:
            raise OSError(errno.EADDRINUSE, f"somebody listens on {host}:{port} already")
        listener = self._listeners[host, port] = SimulatedListener(machine)
        return [listener]

    async def connect_from(self, machine: str, host: str, port: int) -> SimulatedStream:
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(CONNECT_SECONDS_MAX):
            await trio.sleep(2 * self.conditions.draw_latency(self._random))
            while (isolation := self._isolation_between(machine, host, port)) is not None:
                if isolation.refuses:
                    raise ConnectionRefusedError(errno.ECONNREFUSED, f"{host}:{port} is out of reach")
                await isolation.over.wait()
            return self._connected(machine, host, port)
        raise TimeoutError(errno.ETIMEDOUT, f"{host}:{port} is silent")

    def _isolation_between(self, machine: str, host: str, port: int) -> Isolation | None:
        listener = self._listeners.get((host, port))
        other = listener.machine if listener is not None else ANYWHERE
        return self._isolated.get(machine) or self._isolated.get(other)

    def _connected(self, machine: str, host: str, port: int) -> SimulatedStream:
        listener = self._listeners.get((host, port))
        if listener is None or not listener.has_room:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {host}:{port}")
        connection = SimulatedConnection(machine, listener.machine, self._random, self.conditions)
        self._live = [*self.live(), connection]
        self.connections.append(connection.client)
        listener.take(connection.server)
        return connection.client

    # Faults

    def live(self, machine: str | None = None) -> list[SimulatedConnection]:
        """The connections that are open for at least one end; of one machine, or all."""
        self._live = [each for each in self._live if not each.is_over]
        return [each for each in self._live if machine is None or machine in each.machines]

    def isolate(self, machine: str, *, refuses: bool) -> None:
        self.rejoin(machine)
        self._isolated[machine] = Isolation(refuses)
        for connection in self.live(machine):
            connection.silence(to_server=True, to_client=True)

    def rejoin(self, machine: str) -> None:
        """End the isolation; the connections from before are cut."""
        isolation = self._isolated.pop(machine, None)
        if isolation is not None:
            isolation.over.set()
            for connection in self.live(machine):
                connection.cut()

    def crash(self, machine: str, *, noticed_after: Seconds = (0.0, 0.0)) -> None:
        """The machine is gone at once; the others notice within these times."""
        for address in [each for each, listener in self._listeners.items() if listener.machine == machine]:
            self._listeners.pop(address).close()
        for connection in self.live(machine):
            connection.lose_words_of(machine)
            after = self._random.uniform(*noticed_after)
            is_client = connection.machines[0] == machine
            connection.cut(0.0 if is_client else after, after if is_client else 0.0)

    def heal(self) -> None:
        """End isolation and slowness, and cut silent connections. Pending faults are cancelled, too."""
        for machine in list(self._isolated):
            self.rejoin(machine)
        for connection in self.live():
            connection.slow_down((0.0, 0.0), 1 << 30)
            connection.slow_down((0.0, 0.0), 1 << 30, client=False)
            connection.heal()


@dataclass(frozen=True, slots=True)
class NetworkMachine:
    """The network as one machine sees it."""

    name: str
    network: SimulatedNetwork

    async def connect(self, host: str, port: int) -> SimulatedStream:
        return await self.network.connect_from(self.name, host, port)

    async def listen(self, host: str, port: int) -> Sequence[SimulatedListener]:
        return await self.network.listen_on(self.name, host, port)
