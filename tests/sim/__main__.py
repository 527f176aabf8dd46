"""`python -m tests.sim SEED …`: run seeds one by one, each the same as ever, and say what happened."""

import argparse
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

from goqueue.testing.determinism import run_deterministically
from tests.sim.bugs import PLANTED
from tests.sim.world import World


def commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    root = Path(__file__).parents[2]
    found = subprocess.run([git, "describe", "--always", "--dirty"], cwd=root, capture_output=True, check=False)
    return found.stdout.decode().strip() or "unknown"


def run_seed(seed: int, world: type[World]) -> bool:
    print(f"seed {seed} commit {commit()}", flush=True)
    instance = world(seed)
    print(instance.plan)
    try:
        run = run_deterministically(instance.run, seed=seed)
    except BaseException:
        traceback.print_exc()
        print(f"seed {seed} FAILED; run it again with: python -m tests.sim {seed}")
        return False
    print(f"trace {run.trace} {run.value}")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seeds", type=int, nargs="+", metavar="SEED")
    parser.add_argument("--count", type=int, default=1, help="run this many seeds, from each one named on")
    parser.add_argument("--bug", choices=sorted(PLANTED), help="plant this bug, to see it found")
    arguments = parser.parse_args()
    world = PLANTED[arguments.bug] if arguments.bug else World
    seeds = [seed + number for seed in arguments.seeds for number in range(arguments.count)]
    good = [run_seed(seed, world) for seed in seeds]
    return 0 if all(good) else 1


sys.exit(main())
