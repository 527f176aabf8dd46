"""`goqueue bench`: measures a running broker, with the requested durability."""

import sys
from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Any

import click

from goqueue.cli.bench.consuming import consume_all
from goqueue.cli.bench.delay import measure_delays
from goqueue.cli.bench.times import Times, histogram
from goqueue.cli.bench.work import (
    NUMBER_SIZE,
    Cost,
    Load,
    OpenLoop,
    PublishLoad,
    interruptible,
    measure_latency,
    measured,
    messages_in,
    read_all,
    topic_of_its_own,
)
from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import JSON, Column, acks_option, output_option, printable, write_json, write_table
from goqueue.cli.program.progress import Bar, progress_bar
from goqueue.client.client import Client
from goqueue.client.consuming.receiving import MESSAGES_MAX
from goqueue.types import Acks

DURABILITY = {
    Acks.ALL: "fsynced before it was confirmed: survives power loss",
    Acks.LEADER: "in the broker's file when it was confirmed: survives kill -9, not power loss",
    Acks.NONE: "nothing was confirmed: may be lost unnoticed",
}
COUNT_MAX = 10**10
BATCH_MAX = 100_000
SIZE_MAX = 16 * 1024 * 1024
CALL_BYTES_MAX = 256 * 1024 * 1024

Fields = dict[str, Any]
Command = Callable[..., None]

size_option = click.option(
    "--size", type=click.IntRange(0, SIZE_MAX), default=100, show_default=True, help="Bytes of each value."
)
partitions_option = click.option(
    "--partitions", type=click.IntRange(min=1), default=3, show_default=True, help="Of the topic."
)
keep_option = click.option("--keep", is_flag=True, help="Do not delete the topic afterwards.")


def load_options(command: Command) -> Command:
    """The options of the load; the command gets `load`."""

    @wraps(command)
    def with_load(*, count: int, size: int, batch: int, acks: str, producers: int, **arguments: Any) -> None:
        if batch * size > CALL_BYTES_MAX:
            raise click.UsageError(f"--batch times --size is {batch * size:,} bytes; {CALL_BYTES_MAX:,} at most")
        command(load=Load(count=count, size=size, batch=batch, acks=acks, producers=producers), **arguments)

    options = [
        click.option("--count", type=click.IntRange(1, COUNT_MAX), default=1_000_000, show_default=True),
        size_option,
        click.option("--batch", type=click.IntRange(1, BATCH_MAX), default=1_000, show_default=True),
        click.option(
            "--producers", type=click.IntRange(1, 1_000), default=4, show_default=True, help="Calls at a time."
        ),
        acks_option,
        partitions_option,
        keep_option,
    ]
    wrapped: Command = with_load
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


@click.group()
def bench() -> None:
    """Measure a running broker. Every message is counted; a run that failed shows no figures and exits with 1.

    The topic of a run has a name of its own and is deleted afterwards, also after Ctrl-C.
    """


@bench.command(short_help="Show how fast messages are published.")
@load_options
@broker_options
@output_option
def publish(load: Load, partitions: int, keep: bool, broker: BrokerAddress, output: str) -> None:
    """Publish messages in batches, and show how fast they were confirmed."""

    async def work(client: Client, bar: Bar) -> Fields:
        bar.begin(load.count)
        async with topic_of_its_own(client, partitions, keep=keep) as topic:
            publishing = PublishLoad(client, topic, load, bar.advance)
            cost = await publishing.run()
        times = {f"batch_{name}": value for name, value in _in_ms(publishing.times, (50, 99)).items()}
        return {
            **_setting("publish", topic, partitions, load, keep),
            "batch": load.batch,
            "producers": load.producers,
            **_rates(load.count, load.count * load.size, cost),
            **times,
        }

    _show(_measured(broker, work), output)


@bench.command(short_help="Show how fast messages are read.")
@load_options
@click.option("--topic", "given", metavar="NAME", help="Read this one instead of publishing first.")
@broker_options
@output_option
def read(*, load: Load, partitions: int, keep: bool, given: str | None, broker: BrokerAddress, output: str) -> None:
    """Publish messages (or take a topic that is there), read them all, and show how fast that was."""

    async def own(client: Client, bar: Bar) -> Fields:
        bar.begin(2 * load.count)
        async with topic_of_its_own(client, partitions, keep=keep) as topic:
            await PublishLoad(client, topic, load, bar.advance).run()
            fields = await _read(client, bar, topic, load)
        return {**_setting("read", topic, partitions, load, keep), **fields}

    async def existing(client: Client, bar: Bar) -> Fields:
        assert given is not None
        bar.begin(await messages_in(client, given))
        return {"bench": "read", "topic": given, **await _read(client, bar, given, None)}

    _show(_measured(broker, own if given is None else existing), output)


async def _read(client: Client, bar: Bar, topic: str, published: Load | None) -> Fields:
    wanted = None if published is None else bytes(published.size)
    with measured() as cost:
        count, size = await read_all(client, topic, wanted, bar.advance)
    if published is not None and count != published.count:
        raise click.ClickException(f"{published.count:,} messages were published and {count:,} read back")
    return {"messages": count, **_rates(count, size, cost)}


@bench.command(short_help="Show how fast a group takes and acks messages.")
@load_options
@click.option(
    "--receive", "at_once", type=click.IntRange(1, MESSAGES_MAX), default=500, show_default=True, help="At a time."
)
@broker_options
@output_option
def consume(*, load: Load, partitions: int, keep: bool, at_once: int, broker: BrokerAddress, output: str) -> None:
    """Publish messages, let one consumer of a group take and ack them all, and show how fast that was."""

    async def work(client: Client, bar: Bar) -> Fields:
        bar.begin(2 * load.count)
        async with topic_of_its_own(client, partitions, keep=keep) as topic:
            await PublishLoad(client, topic, load, bar.advance).run()
            cost = await consume_all(
                client, topic, count=load.count, value=bytes(load.size), at_once=at_once, advance=bar.advance
            )
        setting = _setting("consume", topic, partitions, load, keep)
        return {**setting, "receive": at_once, **_rates(load.count, load.count * load.size, cost)}

    _show(_measured(broker, work), output)


@bench.command(short_help="Show how long single messages take at a fixed rate.")
@click.option(
    "--rate",
    type=click.FloatRange(0, 1_000_000, min_open=True),
    default=1_000.0,
    show_default=True,
    help="Messages a second, begun when they are due whatever became of those before.",
)
@click.option("--seconds", type=click.FloatRange(0, 86_400, min_open=True), default=10.0, show_default=True)
@click.option("--follow", "follows", is_flag=True, help="Let a reader follow: end-to-end times too.")
@size_option
@acks_option
@partitions_option
@keep_option
@broker_options
@output_option
def latency(
    *,
    rate: float,
    seconds: float,
    follows: bool,
    size: int,
    acks: str,
    partitions: int,
    keep: bool,
    broker: BrokerAddress,
    output: str,
) -> None:
    """Publish single messages at a fixed rate, and show how long each took from when it was due."""
    load = Load(count=max(1, round(rate * seconds)), size=max(size, NUMBER_SIZE), batch=1, acks=acks, producers=1)
    found: list[tuple[OpenLoop, Times]] = []

    async def work(client: Client, bar: Bar) -> Fields:
        bar.begin(load.count)
        async with topic_of_its_own(client, partitions, keep=keep) as topic:
            loop, seen = await measure_latency(client, topic, load, rate, bar.advance, follows=follows)
        found.append((loop, seen))
        return {
            **_setting("latency", topic, partitions, load, keep),
            "rate": rate,
            "messages_per_second": load.count / loop.seconds,
            **{f"publish_{name}": value for name, value in _latencies(loop.times).items()},
            **({f"end_to_end_{name}": value for name, value in _latencies(seen).items()} if follows else {}),
        }

    _show(_measured(broker, work), output)
    if output != JSON and sys.stdout.isatty():
        [(loop, seen)] = found
        _show_histogram("publish", loop.times)
        if follows:
            _show_histogram("end to end", seen)


@bench.command(short_help="Show how late delayed messages come.")
@click.option("--count", type=click.IntRange(1, 1_000_000), default=10_000, show_default=True)
@click.option(
    "--rate",
    type=click.FloatRange(0, 20_000, min_open=True),
    default=1_000.0,
    show_default=True,
    help="So many are due in each second.",
)
@size_option
@acks_option
@partitions_option
@keep_option
@broker_options
@output_option
def delay(
    *,
    count: int,
    rate: float,
    size: int,
    acks: str,
    partitions: int,
    keep: bool,
    broker: BrokerAddress,
    output: str,
) -> None:
    """Publish messages with a delay, read each when it comes, and show how late it was."""
    load = Load(count=count, size=max(size, NUMBER_SIZE), batch=1, acks=acks, producers=500)
    found: list[Times] = []

    async def work(client: Client, bar: Bar) -> Fields:
        bar.begin(load.count)
        async with topic_of_its_own(client, partitions, keep=keep) as topic:
            delayed = await measure_delays(client, topic, load, rate, bar.advance)
        if delayed.early:
            raise click.ClickException(f"{delayed.early:,} messages came early; do the clocks differ?")
        found.append(delayed.lateness)
        return {
            **_setting("delay", topic, partitions, load, keep),
            "rate": rate,
            "published_per_second": load.count / delayed.publishing.seconds,
            **{f"late_{name}": value for name, value in _latencies(delayed.lateness).items()},
        }

    _show(_measured(broker, work), output)
    if output != JSON and sys.stdout.isatty():
        _show_histogram("late", found[0])


def _measured(broker: BrokerAddress, work: Callable[[Client, Bar], Awaitable[Fields]]) -> Fields:
    with progress_bar(counts_bytes=False) as bar:
        return ask(broker, lambda client: interruptible(lambda: work(client, bar)))


# Figures


def _setting(bench: str, topic: str, partitions: int, load: Load, keep: bool) -> Fields:
    return {
        "bench": bench,
        "topic": topic,
        "kept": keep,
        "partitions": partitions,
        "messages": load.count,
        "size": load.size,
        "acks": load.acks,
        "durability": DURABILITY[Acks[load.acks.upper()]],
    }


def _rates(count: int, size: int, cost: Cost) -> Fields:
    return {
        "seconds": cost.seconds,
        "messages_per_second": count / cost.seconds,
        "megabytes_per_second": size / cost.seconds / 1e6,
        "client_cpu_us_per_message": cost.cpu_seconds / max(1, count) * 1e6,
    }


def _in_ms(times: Times, percents: Iterable[float]) -> Fields:
    return {f"p{percent:g}_ms": times.quantile(percent / 100) * 1_000 for percent in percents}


def _latencies(times: Times) -> Fields:
    return {**_in_ms(times, (50, 90, 99, 99.9)), "max_ms": times.longest * 1_000}


# Output


def _show(fields: Fields, output: str) -> None:
    if output == JSON:
        write_json(fields)
        return
    columns = [Column("WHAT", 4), Column("FIGURE", 6)]
    write_table(columns, [[name.replace("_", " "), _shown(value)] for name, value in fields.items()])


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def _show_histogram(title: str, times: Times) -> None:
    click.secho(f"\n{title}", bold=True)
    for line in histogram(times):
        click.echo(line)
