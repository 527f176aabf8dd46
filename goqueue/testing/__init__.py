"""The testing kit: a broker inside a test, on a machine that is real or simulated and replays from a seed.

- `async with goqueue.testing.broker() as client`: for Trio, all in memory
- `async with goqueue.testing.machine(seed=7) as machine`: the same, with faults by name
- `with goqueue.testing.aio_machine() as machine`: for asyncio, all in memory; a test moves its time
- `with goqueue.testing.loopback_broker() as address`: on real sockets, for any client
"""

from goqueue.testing.aio import AioMachine, aio_machine
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.determinism import run_deterministically
from goqueue.testing.disk import SimulatedDisk
from goqueue.testing.loopback import loopback_broker
from goqueue.testing.memory import Machine, broker, machine
from goqueue.testing.network import SimulatedNetwork

__all__ = [
    "AioMachine",
    "Machine",
    "SimulatedClock",
    "SimulatedDisk",
    "SimulatedNetwork",
    "aio_machine",
    "broker",
    "loopback_broker",
    "machine",
    "run_deterministically",
]
