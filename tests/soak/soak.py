"""A broker in a process of its own under mixed load, and samples of what it uses."""

import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path

import trio

import goqueue
from benchmarks.broker import BrokerProcess, broker_process
from tests.soak.flatness import Sample
from tests.soak.load import Load, Pace

SAMPLES = 60
PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    rounds: Counter[str]
    samples: list[Sample]
    restarts: int


def soak(folder: Path, seconds: float, *, rounds_max: float = inf) -> Outcome:
    """For so long, or until every kind of work was done so often."""
    with broker_process(str(folder)) as broker:
        return trio.run(_soak, broker, folder, seconds, rounds_max)


async def _soak(broker: BrokerProcess, folder: Path, seconds: float, rounds_max: float) -> Outcome:
    begin, samples = trio.current_time(), list[Sample]()
    pace = Pace(begin + seconds, rounds_max, PAUSE_SECONDS if rounds_max == inf else 0.0)
    async with goqueue.connect(broker.url) as client, goqueue.connect(broker.url) as watcher:
        load = Load(broker.url, client, pace)
        await load.prepare()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_sample_steadily, broker, folder, watcher, begin, seconds, samples.append)
            await load.run()
            nursery.cancel_scope.cancel()
        samples.append(await _sample(broker, folder, watcher, trio.current_time() - begin))
        return Outcome(load.rounds, samples, int((await watcher.stats())["restarts"]))


async def _sample_steadily(
    broker: BrokerProcess,
    folder: Path,
    client: goqueue.Client,
    begin: float,
    seconds: float,
    note: Callable[[Sample], None],
) -> None:
    while True:
        await trio.sleep(seconds / SAMPLES)
        sample = await _sample(broker, folder, client, trio.current_time() - begin)
        note(sample)
        if sys.stderr.isatty():
            said = (
                f"soak: {sample.second:.0f} of {seconds:.0f} s, {sample.memory_mib:.0f} MiB, {sample.files} files"
            )
            print(f"\r{said:<70}", end="", file=sys.stderr, flush=True)


async def _sample(broker: BrokerProcess, folder: Path, client: goqueue.Client, second: float) -> Sample:
    stall = float((await client.stats())["loop.stall_max_ms"])
    descriptors = len(os.listdir(f"/proc/{broker.pid}/fd"))
    files = await trio.to_thread.run_sync(_files_in, folder)
    return Sample(second, broker.resident_mib(), descriptors, files, stall)


def _files_in(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))
