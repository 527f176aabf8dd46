"""Brings about what the plan has in store for one life of the broker."""

from collections.abc import Sequence
from random import Random

import trio

from goqueue.testing.disk import CAPACITY, SimulatedDisk
from goqueue.testing.network import SimulatedConnection, SimulatedNetwork
from tests.sim.clients.plan import Fault, Trouble

FRAME_BYTES = 600
"""The middle of a frame lies within so many bytes."""


class Troublemaker:
    def __init__(self, network: SimulatedNetwork, disk: SimulatedDisk, random: Random) -> None:
        self._network, self._disk, self._random = network, disk, random

    async def run(self, faults: Sequence[Fault]) -> None:
        async with trio.open_nursery() as nursery:
            for fault in faults:
                nursery.start_soon(self._bring_about, fault)

    async def _bring_about(self, fault: Fault) -> None:
        await trio.sleep(fault.after)
        machine = f"client-{fault.client}"
        if fault.trouble in (Trouble.REFUSED, Trouble.HANGING):
            self._network.isolate(machine, refuses=fault.trouble is Trouble.REFUSED)
            try:
                await trio.sleep(fault.seconds)
            finally:
                self._network.rejoin(machine)
        elif fault.trouble is Trouble.DISK_FULL:
            await self._fill_disk(fault.seconds)
        else:
            for connection in self._network.live(machine):
                await self._harm(connection, fault)

    async def _fill_disk(self, seconds: float) -> None:
        """The capacity is given back when the life ends, if not before."""
        self._disk.capacity -= self._disk.space("/").free - self._random.randint(0, 300)
        await trio.sleep(seconds)
        self._disk.capacity = CAPACITY

    async def _harm(self, connection: SimulatedConnection, fault: Fault) -> None:
        trouble = fault.trouble
        if trouble is Trouble.CUT:
            connection.cut()
        elif trouble is Trouble.CUT_ONE_BY_ONE:
            delays = [0.0, fault.seconds]
            self._random.shuffle(delays)
            connection.cut(*delays)
        elif trouble is Trouble.CUT_IN_FRAME:
            count = self._random.randint(1, FRAME_BYTES)
            connection.cut_after(**{self._random.choice(["to_server", "to_client"]): count})
        elif trouble in (Trouble.REQUESTS_VANISH, Trouble.ANSWERS_VANISH):
            vanish = trouble is Trouble.REQUESTS_VANISH
            connection.silence(to_server=vanish, to_client=not vanish)
            await _wait_and_always(fault.seconds, connection.cut)
        else:
            self._slow_down(connection, client=trouble is Trouble.SLOW_CLIENT)

    def _slow_down(self, connection: SimulatedConnection, *, client: bool) -> None:
        connection.slow_down((0.001, 0.05), self._random.choice([50, 1_000]), client=client)


async def _wait_and_always(seconds: float, do: object) -> None:
    try:
        await trio.sleep(seconds)
    finally:
        assert callable(do)
        do()
