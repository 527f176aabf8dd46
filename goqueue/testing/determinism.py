"""Run a Trio program so that its seed decides everything, and tell two runs apart by their trace.

Trio promises no order among tasks that become ready at once: those that wait for one event are in a set, and whole
batches are reversed at random. Two of its private switches together make the order depend on the seed. The first
sorts each batch by the tasks' age and shuffles it, the second is the generator that shuffles; the generator alone
is not enough, since a set has another order in each process. This is the only file that may touch them.

The clock is virtual and jumps when all tasks wait. A thread would be a task that the clock can not see, and its end
would come at no particular time: starting one raises here.

The trace is a hash over every step: which task ran, by name and order of birth, and at what time. It comes from an
Instrument, which Trio switches off with a mere log entry when it raises; so it hashes, and never checks anything.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from random import Random
from re import sub
from types import ModuleType
from typing import Generic, NamedTuple, NoReturn, TypeVar, TypeVarTuple

import trio
import trio.testing
from trio import _threads
from trio._core import _run

Value = TypeVar("Value")
Arguments = TypeVarTuple("Arguments")


class ThreadInSimulation(RuntimeError):
    """Something asked for a real thread, which the virtual clock can not wait for."""


class SimulatedRun(NamedTuple, Generic[Value]):
    value: Value
    trace: str


class Trace(trio.abc.Instrument):
    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._labels: dict[trio.lowlevel.Task, str] = {}
        self._born = 0

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        name = sub("0x[0-9a-f]+", "", task.name)  # addresses differ from process to process
        self._labels[task] = f"{self._born} {name}"
        self._born += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._hash.update(f"{self._labels[task]} {trio.current_time()!r}\n".encode())

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        del self._labels[task]

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def run_deterministically(
    function: Callable[[*Arguments], Awaitable[Value]], *arguments: *Arguments, seed: int
) -> SimulatedRun[Value]:
    """Like `trio.run`, on a virtual clock from zero; the same seed takes the same steps in any process."""
    trace = Trace()
    clock = trio.testing.MockClock(autojump_threshold=0)
    with (
        _replaced(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
        _replaced(_run, "_r", Random(seed)),
        _replaced(_threads, "start_thread_soon", _refuse_thread),
    ):
        value = trio.run(function, *arguments, clock=clock, instruments=[trace])
    return SimulatedRun(value, trace.hexdigest())


@contextmanager
def _replaced(module: ModuleType, name: str, value: object) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def _refuse_thread(*_: object) -> NoReturn:
    raise ThreadInSimulation("a thread was asked for in a simulation; its disk and network need none")
