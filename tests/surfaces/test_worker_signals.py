"""Workers and signals: whoever runs is drained by SIGTERM and SIGINT, and nothing is left behind."""

import asyncio
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO

import pytest
import trio

from goqueue import blocking
from goqueue.client.working.signals import SIGNALS, signals_stop
from tests.surfaces.background import in_background, wait_until
from tests.surfaces.test_consumers import fill
from tests.surfaces.test_workers import SECONDS_MAX, attempts_left
from tests.surfaces.workerprogram import Told

ROOT = Path(__file__).parents[2]


# Real processes


@contextmanager
def begun(told: Told) -> Iterator[subprocess.Popen[str]]:
    """With all its handlers running."""
    process = subprocess.Popen(
        told.arguments(), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    with process:
        deadline = threading.Timer(SECONDS_MAX, process.kill)
        deadline.start()
        try:
            assert [there(process.stdout).readline() for _ in range(told.workers)] == ["begun\n"] * told.workers
            yield process
        finally:
            deadline.cancel()
            process.kill()


def there(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def let_handlers_return(process: subprocess.Popen[str], count: int) -> None:
    there(process.stdin).write("." * count)
    there(process.stdin).flush()


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("surface", ["trio", "asyncio", "threads"])
def test_a_signal_drains_without_being_asked_to_and_the_call_returns(
    address: str, client: blocking.Client, surface: str, number: signal.Signals
) -> None:
    fill(client, 1)
    with begun(Told(surface, address)) as process:
        process.send_signal(number)
        let_handlers_return(process, 1)
        assert json.loads(there(process.stdout).read()) == [[[1, 0, 0]], [], True]
        assert process.wait() == 0
    assert client.group("billing-0").lag == 0


@pytest.mark.parametrize("surface", ["trio", "asyncio", "threads"])
def test_one_signal_drains_all_workers_and_then_the_program_s_own_handler_hears_it(
    address: str, client: blocking.Client, surface: str
) -> None:
    fill(client, 1)
    with begun(Told(surface, address, workers=3, has_own_handler=True)) as process:
        process.send_signal(signal.SIGTERM)
        let_handlers_return(process, 3)
        assert json.loads(there(process.stdout).read()) == [[[1, 0, 0]] * 3, [signal.SIGTERM], True]
        assert process.wait() == 0


@pytest.mark.parametrize("surface", ["trio", "asyncio", "threads"])
def test_who_wants_no_signals_handled_has_none(address: str, client: blocking.Client, surface: str) -> None:
    fill(client, 1)
    with begun(Told(surface, address, handles=False)) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM


# In this process


def test_a_signal_drains_and_the_next_one_ends_at_once(address: str, client: blocking.Client) -> None:
    fill(client, 3)
    before = [signal.getsignal(number) for number in SIGNALS]
    go_on = threading.Event()
    seen: list[bytes] = []

    def handler(message: blocking.DeliveredMessage) -> None:
        seen.append(message.value)
        if len(seen) == 2:
            signal.raise_signal(signal.SIGTERM)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            go_on.wait(SECONDS_MAX)

    try:
        worked = blocking.worker("orders", "billing", handler, concurrency=1, url=address)
    finally:
        go_on.set()
    assert worked == (1, 0, 1)
    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert attempts_left(client, 2) == [1, 1]


def test_outside_of_the_main_thread_signals_are_left_alone(address: str, client: blocking.Client) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    worker = blocking.Worker("orders", "billing", lambda _: None, url=address, handle_signals=True)
    running = in_background(worker.run)
    wait_until(lambda: any(group.name == "billing" for group in client.groups()))
    assert [signal.getsignal(number) for number in SIGNALS] == before
    worker.stop()
    assert running.ended().value == (0, 0, 0)


# The handler that they share


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What has been told to whom. The program's own handler says `program`."""
    said: list[str] = []
    before = [signal.signal(number, lambda *_: said.append("program")) for number in SIGNALS]
    yield said
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


def worker_named(name: str, said: list[str]) -> AbstractContextManager[None]:
    return signals_stop(lambda: said.append(f"{name} drains"), lambda: said.append(f"{name} ends"))


def test_a_third_signal_is_none_of_the_worker_s(said: list[str]) -> None:
    with worker_named("ann", said):
        for _ in range(4):
            signal.raise_signal(signal.SIGINT)
        assert said == ["ann drains", "ann ends", "program", "program"]
    assert said[4:] == ["program", "program"], "it hears of the first two when the worker has ended"
    signal.raise_signal(signal.SIGINT)
    assert said[6:] == ["program"]


@pytest.mark.parametrize("leaves_first", ["ann", "bob"])
def test_who_ends_first_leaves_the_handler_to_the_others(said: list[str], leaves_first: str) -> None:
    own = signal.getsignal(signal.SIGTERM)
    stays = {"ann": "bob", "bob": "ann"}[leaves_first]
    running = {name: ExitStack() for name in ("ann", "bob")}
    for name, stack in running.items():
        stack.enter_context(worker_named(name, said))
    running[leaves_first].close()
    signal.raise_signal(signal.SIGTERM)
    assert said == [f"{stays} drains"]
    running[stays].close()
    assert said == [f"{stays} drains", "program"]
    assert signal.getsignal(signal.SIGTERM) is own


def test_who_begins_while_the_others_drain_is_drained_as_well(said: list[str]) -> None:
    with worker_named("ann", said):
        signal.raise_signal(signal.SIGTERM)
        with worker_named("bob", said):
            assert said == ["ann drains", "bob drains"]
            signal.raise_signal(signal.SIGTERM)
            assert said[2:] == ["ann ends", "bob ends"]
    with worker_named("eve", said):
        assert said[4:] == ["program", "program"], "what was said to those before is over"


def test_a_worker_in_another_thread_drains_with_the_one_in_the_main_thread(said: list[str]) -> None:
    is_there, go_on = threading.Event(), threading.Event()

    def run() -> None:
        with worker_named("bob", said):
            is_there.set()
            go_on.wait(SECONDS_MAX)

    running = in_background(run)
    assert is_there.wait(SECONDS_MAX)
    signal.raise_signal(signal.SIGTERM)
    with worker_named("ann", said):
        signal.raise_signal(signal.SIGTERM)
    go_on.set()
    assert running.ended().error is None
    assert said == ["program", "bob drains", "ann drains", "program"]


def test_a_handler_that_the_program_installs_meanwhile_stays(said: list[str]) -> None:
    def later(number: int, frame: object) -> None:
        said.append("later")

    with worker_named("ann", said):
        signal.signal(signal.SIGTERM, later)
    assert signal.getsignal(signal.SIGTERM) is later
    signal.raise_signal(signal.SIGTERM)
    assert said == ["later"]


def test_a_handler_that_is_put_back_when_the_workers_have_ended_passes_signals_on(said: list[str]) -> None:
    def nothing(number: int, frame: object) -> None: ...

    with worker_named("ann", said):
        replaced = signal.signal(signal.SIGTERM, nothing)
    signal.signal(signal.SIGTERM, replaced)
    signal.raise_signal(signal.SIGTERM)
    assert said == ["program"]
    with worker_named("bob", said):
        signal.raise_signal(signal.SIGTERM)
    assert said == ["program", "bob drains", "program"]


def raise_in_a_fork() -> int:
    """What became of it: its exit code, or minus the signal."""
    fork = os.fork()
    if fork == 0:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])


def test_a_fork_of_a_handler_s_is_ended_by_a_signal_as_ever(said: list[str]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with worker_named("ann", said):
        assert raise_in_a_fork() == -signal.SIGTERM
        signal.raise_signal(signal.SIGTERM)
    assert said == ["ann drains"]


def test_what_raises_keyboard_interrupt_does_not_after_a_drain(said: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with worker_named("ann", said):
        signal.raise_signal(signal.SIGINT)
    assert said == ["ann drains"]


def exits(number: int, frame: object) -> None:
    raise SystemExit(3)


def test_a_program_s_own_handler_that_exits_does_so_after_the_drain(said: list[str]) -> None:
    signal.signal(signal.SIGTERM, exits)

    def run(after: Callable[[], None]) -> None:
        with worker_named("ann", said):
            signal.raise_signal(signal.SIGTERM)
            after()

    with pytest.raises(SystemExit):
        run(lambda: said.append("still here"))
    assert said == ["ann drains", "still here"]
    assert signal.getsignal(signal.SIGTERM) is exits


async def heard_by_the_loop(said: list[str]) -> None:
    """A handler of the event loop's, with a worker and without one."""
    loop, heard = asyncio.get_running_loop(), asyncio.Event()

    def hear() -> None:
        said.append("loop")
        heard.set()

    loop.add_signal_handler(signal.SIGTERM, hear)
    with worker_named("ann", said):
        signal.raise_signal(signal.SIGTERM)
        await heard.wait()
    heard.clear()
    signal.raise_signal(signal.SIGTERM)
    await heard.wait()


def test_a_handler_of_asyncio_s_loop_hears_the_signal_beside_the_worker(said: list[str]) -> None:
    asyncio.run(heard_by_the_loop(said))
    assert said == ["ann drains", "loop", "loop"]


async def heard_by_trio(said: list[str]) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        with worker_named("ann", said):
            signal.raise_signal(signal.SIGTERM)
        async for _ in signals:
            said.append("receiver")
            return


def test_a_receiver_of_trio_s_hears_the_signal_after_the_worker(said: list[str]) -> None:
    trio.run(heard_by_trio, said)
    assert said == ["ann drains", "receiver"]
