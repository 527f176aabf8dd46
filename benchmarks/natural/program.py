"""One run, in a process of its own: `python -m benchmarks.natural.program MODULE FUNCTION`.

Prints a Sample as JSON. The task is in the environment. An asynchronous function runs in the event loop of its
module, `run`.
"""

import inspect
import json
import sys
from dataclasses import asdict
from importlib import import_module
from typing import Any

from benchmarks.natural.meter import Meter
from benchmarks.natural.task import Sample, given_task
from benchmarks.natural.working import work

WORK = "work"
PROGRAMS = "benchmarks.natural.programs"


def sample_of(module: Any, function: str) -> Sample:
    task = given_task()
    if function == WORK:
        return work(module, task)
    meter, run = Meter(task), getattr(module, function)
    if inspect.iscoroutinefunction(run):
        module.run(run, task, meter)
    else:
        run(task, meter)
    assert meter.sample is not None
    return meter.sample


def main(module: str, function: str) -> None:
    print(json.dumps(asdict(sample_of(import_module(f"{PROGRAMS}.{module}"), function))))


if __name__ == "__main__":
    main(*sys.argv[1:])
