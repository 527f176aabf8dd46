"""What schemas cost: `./dev bench schema`.

Ten-field messages of about 150 bytes in JSON, through one partition, batches of 1,000, every publish confirmed:
with a schema and without one, in turns. The same with the schema's id before each value, as Confluent's serializers
write it. How long the thousandth version of a subject takes to register; what it costs to compare two schemas of
500 properties.
"""

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import trio

import goqueue
from benchmarks.broker import BrokerProcess, broker_process
from benchmarks.commandline import Size, Tell, run
from benchmarks.figures import Figure, timed
from benchmarks.garbage import heap_set_apart
from benchmarks.peers.workload import Wrong, check_count
from goqueue.core.schemas.compatibility.check import findings
from goqueue.core.schemas.schema import ResolvedSchema
from goqueue.core.schemas.text import finished

WORKERS = 4
PLAIN, TYPED, FRAMED = "plain", "typed", "framed"
RATE_MIN, RATIO_MIN = 150_000, 0.2
REGISTERED_MS_MAX, COMPARED_MS_MAX = 50, 200
LAST = 10
"""Registrations whose median counts, the thousandth the last of them."""


@dataclass(frozen=True, slots=True)
class Sizes:
    runs: int = 5
    messages: int = 400_000
    versions: int = 1_000
    properties: int = 500


SIZES: dict[Size, Sizes] = {
    "full": Sizes(),
    "quick": Sizes(runs=3, messages=100_000, versions=100),
    "tiny": Sizes(runs=1, messages=2_000, versions=12, properties=20),
}


# Ten fields

FIELDS: dict[str, Any] = {
    "id": {"type": "integer", "minimum": 1},
    "customer": {"type": "string", "maxLength": 40},
    "status": {"enum": ["new", "paid", "shipped"]},
    "currency": {"type": "string", "minLength": 3, "maxLength": 3},
    "amount": {"type": "number", "minimum": 0},
    "items": {"type": "integer", "minimum": 1},
    "is_gift": {"type": "boolean"},
    "country": {"type": "string"},
    "created": {"type": "integer"},
    "note": {"type": ["string", "null"]},
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": FIELDS,
    "required": [*FIELDS],
    "additionalProperties": False,
}


def message(number: int) -> bytes:
    return orjson.dumps(
        {
            "id": number + 1,
            "customer": f"customer {number % 977}",
            "status": ("new", "paid", "shipped")[number % 3],
            "currency": "EUR",
            "amount": number % 10_000 / 100,
            "items": number % 9 + 1,
            "is_gift": number % 5 == 0,
            "country": "DE",
            "created": 1_700_000_000 + number,
            "note": None,
        }
    )


BLOCK = [message(number) for number in range(1_000)]


# Publishing


@dataclass(frozen=True, slots=True)
class Run:
    rate: float
    """Messages a second."""
    broker: float
    """Microseconds of the broker's processor time for each message."""


async def publish(
    client: goqueue.Client, broker: BrokerProcess, topic: str, block: Sequence[bytes], count: int
) -> Run:
    left = iter(range(count // len(block)))
    before = broker.cpu_seconds()
    async with client.producer(topic, acks="leader") as producer:

        async def work() -> None:
            for _ in left:
                check_count(len(await producer.send_many(block)), len(block), "confirmed")

        with timed() as watch:
            async with trio.open_nursery() as nursery:
                for _ in range(WORKERS):
                    nursery.start_soon(work)
    return Run(count / watch.seconds, (broker.cpu_seconds() - before) / count * 1e6)


async def make_topics(client: goqueue.Client) -> dict[str, list[bytes]]:
    """The values that are published to each."""
    for topic in (PLAIN, TYPED, FRAMED):
        await client.create_topic(topic, partitions=1)
    for topic in (TYPED, FRAMED):
        registered = await client.register_schema(f"{topic}-value", SCHEMA)
    prefix = b"\0" + registered.id.to_bytes(4, "big")
    return {PLAIN: BLOCK, TYPED: BLOCK, FRAMED: [prefix + value for value in BLOCK]}


async def measure_publishing(
    client: goqueue.Client, broker: BrokerProcess, sizes: Sizes, tell: Tell
) -> list[Figure]:
    blocks = await make_topics(client)
    runs: dict[str, list[Run]] = {topic: [] for topic in blocks}
    for topic, block in blocks.items():
        await publish(client, broker, topic, block, 2 * len(block))
    for number in range(sizes.runs):
        tell(f"publishing, round {number + 1} of {sizes.runs}")
        for topic, block in blocks.items():
            runs[topic].append(await publish(client, broker, topic, block, sizes.messages))
    await check_held(client)
    return publishing_figures(runs)


async def check_held(client: goqueue.Client) -> None:
    """Else what was measured was no validation."""
    try:
        await client.publish(TYPED, b'{"id": 0}')
    except goqueue.SchemaRefused:
        return
    raise Wrong("a message that does not fit its schema was accepted")


def publishing_figures(runs: dict[str, list[Run]]) -> list[Figure]:
    ratio = statistics.median(
        typed.rate / plain.rate for typed, plain in zip(runs[TYPED], runs[PLAIN], strict=True)
    )
    typed = _median_rate(runs[TYPED])
    return [
        Figure("without a schema", _median_rate(runs[PLAIN]), "messages/s"),
        Figure("with a schema", typed, "messages/s", f"≥ {RATE_MIN:,}", typed >= RATE_MIN),
        Figure("with a schema / without", ratio, "×", f"≥ {RATIO_MIN:g}", ratio >= RATIO_MIN),
        Figure("with a schema, its id before each value", _median_rate(runs[FRAMED]), "messages/s"),
        Figure("without a schema: broker", _median_cpu(runs[PLAIN]), "µs CPU/message"),
        Figure("with a schema: broker", _median_cpu(runs[TYPED]), "µs CPU/message"),
    ]


def _median_rate(runs: Sequence[Run]) -> float:
    return statistics.median(each.rate for each in runs)


def _median_cpu(runs: Sequence[Run]) -> float:
    return statistics.median(each.broker for each in runs)


# Registering and comparing


async def measure_registering(client: goqueue.Client, sizes: Sizes, tell: Tell) -> list[Figure]:
    """Versions that differ in a field's description, each compared with the one before."""
    seconds = []
    for number in range(sizes.versions):
        if number % 100 == 0:
            tell(f"registering, {number:,} of {sizes.versions:,} versions")
        fields = {**FIELDS, "note": {**FIELDS["note"], "description": f"As of version {number}"}}
        with timed() as watch:
            await client.register_schema("versions-value", {**SCHEMA, "properties": fields})
        seconds.append(watch.seconds)
    last = statistics.median(seconds[-LAST:]) * 1e3
    return [
        Figure(
            f"registering version {sizes.versions:,}",
            last,
            "ms",
            f"< {REGISTERED_MS_MAX}",
            last < REGISTERED_MS_MAX,
        )
    ]


def measure_comparing(sizes: Sizes) -> list[Figure]:
    """Processor time, of one core."""
    old = {**SCHEMA, "properties": {f"field{number}": {"type": "integer"} for number in range(sizes.properties)}}
    old["required"] = []
    new = {**old, "properties": {**old["properties"], "added": {"type": "string"}}}
    reader, writer = (ResolvedSchema(orjson.dumps(schema).decode()) for schema in (new, old))
    spent = []
    for _ in range(sizes.runs):
        begin = time.process_time()
        if finished(findings(reader, writer)):
            raise Wrong("a property was added to a closed object, and that is compatible")
        spent.append((time.process_time() - begin) * 1e3)
    compared = statistics.median(spent)
    name = f"comparing two schemas of {sizes.properties} properties"
    return [Figure(name, compared, "ms", f"< {COMPARED_MS_MAX}", compared < COMPARED_MS_MAX)]


# All of it


async def measure(broker: BrokerProcess, size: Size, tell: Tell) -> list[Figure]:
    sizes = SIZES[size]
    async with goqueue.connect(broker.url) as client:
        with heap_set_apart():
            figures = await measure_publishing(client, broker, sizes, tell)
            figures += await measure_registering(client, sizes, tell)
        stalls = int((await client.stats())["loop.stalls_20_ms"])
    return [
        *figures,
        *measure_comparing(sizes),
        Figure("stalls of the event loop above 20 ms meanwhile", stalls, "", "0", stalls == 0),
    ]


def measure_all(folder: Path, size: Size, tell: Tell) -> list[Figure]:
    with broker_process(str(folder / "data")) as broker:
        return trio.run(measure, broker, size, tell)


def main(arguments: list[str] | None = None) -> int:
    return run("schema", __doc__ or "", "schemas: ten-field messages", measure_all, arguments)


if __name__ == "__main__":
    sys.exit(main())
