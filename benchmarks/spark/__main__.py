"""Topics as tables, on two cores that Spark and the broker share: `./dev bench spark`.

100-byte values, every row counted. Each part has figures of its own; `--only reading` measures one.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from benchmarks.broker import BrokerProcess, broker_process
from benchmarks.commandline import Size, Tell, run
from benchmarks.figures import Figure
from benchmarks.spark import reading
from benchmarks.spark.ingesting import measure_ingest
from benchmarks.spark.session import Session, local_session
from benchmarks.spark.writing import measure_sink

MESSAGES: dict[Size, int] = {"full": 2_000_000, "quick": 400_000, "tiny": 4_000}

Part: TypeAlias = Callable[[Session, BrokerProcess, Size, Tell], list[Figure]]


def writing(session: Session, broker: BrokerProcess, size: Size, tell: Tell) -> list[Figure]:
    tell("writing")
    return measure_sink(session.spark, broker.url, MESSAGES[size])


def ingesting(session: Session, broker: BrokerProcess, size: Size, tell: Tell) -> list[Figure]:
    tell("ingesting")
    return measure_ingest(session.spark, broker.url, MESSAGES[size])


PARTS: Mapping[str, Part] = {
    "reading": reading.measure,
    "writing": writing,
    "ingesting": ingesting,
}
"""In the order of the page. All of them share one session and one broker, and make topics of their own."""


def measure_all(only: Sequence[str], folder: Path, size: Size, tell: Tell) -> list[Figure]:
    with broker_process(str(folder / "data")) as broker, local_session(folder) as session:
        return [figure for name in only or PARTS for figure in PARTS[name](session, broker, size, tell)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[])
    own, others = parser.parse_known_args(arguments)
    title = "Spark: 100-byte values, medians of runs in turns"
    return run("spark", __doc__ or "", title, partial(measure_all, own.only), others)


if __name__ == "__main__":
    sys.exit(main())
