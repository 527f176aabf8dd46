"""`python -m tests.sim SEED …`: run seeds one by one, each the same as ever, and say what happened."""

import argparse
import logging
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

from goqueue.testing.determinism import run_deterministically
from tests.sim.clients.bugs import PLANTED_AMONG_CLIENTS
from tests.sim.clients.world import ClientWorld
from tests.sim.delays.bugs import PLANTED_AMONG_DELAYS
from tests.sim.delays.world import DelayWorld
from tests.sim.disk.bugs import PLANTED
from tests.sim.disk.world import World
from tests.sim.groups.bugs import PLANTED_AMONG_GROUPS
from tests.sim.groups.lanebugs import PLANTED_AMONG_LANES
from tests.sim.groups.world import GroupWorld
from tests.sim.http.bugs import PLANTED_OVER_HTTP
from tests.sim.http.world import HttpWorld
from tests.sim.schemas.bugs import PLANTED_AMONG_SCHEMAS
from tests.sim.schemas.world import SchemaWorld
from tests.sim.shrinking import shrunk
from tests.sim.streams.bugs import PLANTED_AMONG_STREAMS
from tests.sim.workers.bugs import PLANTED_AMONG_WORKERS
from tests.sim.workers.world import WorkerWorld

WORLDS: dict[str, type[World] | type[ClientWorld]] = {
    "partitions": World,
    "clients": ClientWorld,
    "groups": GroupWorld,
    "delays": DelayWorld,
    "workers": WorkerWorld,
    "http": HttpWorld,
    "schemas": SchemaWorld,
}
BUGS: dict[str, dict[str, type[World]] | dict[str, type[ClientWorld]]] = {
    "partitions": PLANTED,
    "clients": PLANTED_AMONG_CLIENTS,
    "delays": PLANTED_AMONG_DELAYS,
    "groups": {**PLANTED_AMONG_GROUPS, **PLANTED_AMONG_LANES, **PLANTED_AMONG_STREAMS},
    "workers": PLANTED_AMONG_WORKERS,
    "http": PLANTED_OVER_HTTP,
    "schemas": PLANTED_AMONG_SCHEMAS,
}


def commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    root = Path(__file__).parents[2]
    found = subprocess.run([git, "describe", "--always", "--dirty"], cwd=root, capture_output=True, check=False)
    return found.stdout.decode().strip() or "unknown"


def run_seed(seed: int, world: type[World] | type[ClientWorld], again: str) -> bool:
    print(f"seed {seed} commit {commit()}", flush=True)
    instance = world(seed)
    print(instance.plan)
    try:
        run = run_deterministically(instance.run, seed=seed)
    except BaseException:
        traceback.print_exc()
        print(f"seed {seed} FAILED; run it again with: python -m tests.sim {again} {seed}")
        return False
    print(f"trace {run.trace} {run.value}")
    return True


def shrink_seed(seed: int, world: type[ClientWorld]) -> None:
    plan = shrunk(world, seed)
    if plan is not None:
        print(f"seed {seed} fails with {len(plan.faults)} faults:")
        print(plan)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seeds", type=int, nargs="+", metavar="SEED")
    parser.add_argument("--count", type=int, default=1, help="run this many seeds, from each one named on")
    parser.add_argument("--world", choices=sorted(WORLDS), default="partitions", help="what is simulated")
    parser.add_argument("--bug", help="plant this bug, to see it found")
    parser.add_argument("--shrink", action="store_true", help="find the faults that a failing seed needs")
    arguments = parser.parse_args()
    bugs = BUGS[arguments.world]
    if arguments.bug is not None and arguments.bug not in bugs:
        parser.error(f"--bug is one of {', '.join(sorted(bugs))} in this world")
    logging.getLogger(
        "goqueue"
    ).propagate = False  # crashes are what a simulation is made of; checkers still listen
    logging.getLogger("goqueue").addHandler(logging.NullHandler())
    world = bugs[arguments.bug] if arguments.bug else WORLDS[arguments.world]
    again = f"--world {arguments.world}" + (f" --bug {arguments.bug}" if arguments.bug else "")
    seeds = [seed + number for seed in arguments.seeds for number in range(arguments.count)]
    bad = [seed for seed in seeds if not run_seed(seed, world, again)]
    for seed in bad if arguments.shrink else []:
        if issubclass(world, ClientWorld):
            shrink_seed(seed, world)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
