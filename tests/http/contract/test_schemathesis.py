"""Whatever the OpenAPI document allows, and much that it does not: schemathesis asks a real broker on loopback.

All checks are on: a 500, an undeclared status, an answer that is not as declared, a wrong request that is taken and
a good one that is refused all fail. It has a process of its own, and warnings of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import trio
from hypothesis import settings

from tests.process.brokers import broker_process
from tests.process.children import ROOT

CONFIG = Path(__file__).parent / "schemathesis.toml"
EXAMPLES = 8
"""For each route and phase."""
SEED, SEEDS_LONG = 7, 8


def seeds() -> range:
    is_long = settings().max_examples > settings.get_profile("default").max_examples
    return range(SEED, SEED + (SEEDS_LONG if is_long else 1))


async def test_a_broker_keeps_what_its_document_promises(tmp_path: Path) -> None:
    for seed in seeds():
        async with broker_process(tmp_path / str(seed)) as (broker, _):
            address = json.loads(broker.lines[0])["http"]
            code, said = await schemathesis_at(address, seed, tmp_path)
        assert code == 0, said[-8_000:]
        assert "Stateful" in said


async def schemathesis_at(address: str, seed: int, folder: Path) -> tuple[int, str]:
    options = ["--seed", str(seed), "--max-examples", str(EXAMPLES), "--checks", "all"]
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "run"]
    done = await trio.run_process(
        [*command, f"{address}/openapi.json", *options, "--generation-database", "none"],
        cwd=folder,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.http.contract.hooks", "PYTHONPATH": str(ROOT)},
        capture_stdout=True,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout.decode()
