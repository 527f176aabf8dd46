"""One seed, one run: in this process, in any other, whatever the order of hashes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from trio._core import _run

from goqueue.testing.determinism import ThreadInSimulation, run_deterministically
from tests.testing.story import tell

ROOT = Path(__file__).parents[2]


def tell_in_another_process(seed: int, hash_seed: int) -> str:
    told = subprocess.run(
        [sys.executable, "-c", f"from tests.testing.story import tell; print(*tell({seed}))"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        check=True,
        capture_output=True,
        text=True,
    )
    return told.stdout.strip()


def test_a_seed_replays_in_two_processes_with_different_hashes() -> None:
    here = tell(seed=7)
    assert tell_in_another_process(seed=7, hash_seed=1) == f"{here.value} {here.trace}"
    assert tell_in_another_process(seed=7, hash_seed=2) == f"{here.value} {here.trace}"


def test_a_seed_replays_in_one_process() -> None:
    for seed in range(10):
        assert tell(seed) == tell(seed)


def test_different_seeds_take_different_steps() -> None:
    assert len({tell(seed).trace for seed in range(20)}) == 20


async def race() -> list[int]:
    """Tasks that differ in nothing but the order in which they are scheduled."""
    order: list[int] = []
    start = trio.Event()

    async def runner(number: int) -> None:
        await start.wait()
        order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(runner, number)
        await trio.testing.wait_all_tasks_blocked()
        start.set()
    return order


def test_the_seed_alone_decides_who_runs_first() -> None:
    orders = [tuple(run_deterministically(race, seed=seed).value) for seed in range(40)]
    assert orders == [tuple(run_deterministically(race, seed=seed).value) for seed in range(40)]
    assert len(set(orders)) > 30


def test_the_trace_tells_apart_what_ran_from_when_it_ran() -> None:
    async def sleep(seconds: float) -> None:
        await trio.sleep(seconds)

    async def nap(seconds: float) -> None:
        await trio.sleep(seconds)

    runs = [(sleep, 1.0), (sleep, 2.0), (nap, 1.0), (sleep, 1.0)]
    traces = [run_deterministically(function, seconds, seed=0).trace for function, seconds in runs]
    assert traces[0] == traces[3]
    assert len(set(traces)) == 3


def test_time_is_virtual_and_begins_at_zero() -> None:
    async def a_week() -> float:
        began = trio.current_time()
        await trio.sleep(7 * 24 * 3_600)
        return trio.current_time() - began

    assert run_deterministically(a_week, seed=0).value == 604_800
    assert run_deterministically(_now, seed=0).value == 0


async def _now() -> float:
    return trio.current_time()


async def in_a_thread() -> int:
    return await trio.to_thread.run_sync(lambda: 4)


def test_a_thread_in_a_simulation_is_an_error() -> None:
    with pytest.raises(ThreadInSimulation, match="thread"):
        run_deterministically(in_a_thread, seed=0)
    with pytest.raises(ThreadInSimulation):
        run_deterministically(trio.Path(__file__).read_text, seed=0)


@pytest.mark.parametrize("error", [KeyError("of the story"), KeyboardInterrupt()])
def test_trio_is_left_as_it_was_even_by_a_story_that_fails(error: BaseException) -> None:
    async def fail() -> None:
        raise error

    before = (_run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r, _run._r.getstate())
    with pytest.raises(type(error)):
        run_deterministically(fail, seed=0)
    assert before == (_run._ALLOW_DETERMINISTIC_SCHEDULING, _run._r, _run._r.getstate())
    assert trio.run(in_a_thread) == 4
