"""`goqueue work`: a function of yours, run for each message of a group."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

import click
import trio

import goqueue
from goqueue.cli.logs import TextFormatter
from goqueue.cli.messages.consume import EARLIEST, STRICT, WEIGHTED, StartOffset
from goqueue.cli.messages.consumegroup import check_there
from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import JSON, Column, output_option, printable, write_json, write_table
from goqueue.cli.program.running import Exit, Misuse, end, ended_by_others
from goqueue.cli.program.times import Length
from goqueue.client.client import Client
from goqueue.client.working.rules import Worked
from goqueue.client.working.worker import is_async
from goqueue.core.groups.settings import ASSIGNORS, REBALANCES
from goqueue.errors import GoQueueError, HandlerCannotRun

ASYNCIO, THREADS, TRIO = "asyncio", "threads", "trio"
COLUMNS = [Column(title, len(title), is_number=True) for title in ("HANDLED", "FAILED", "CANCELLED")]

AT_ONCE = "So many messages at a time."
LEASE = "How soon another member may have the message of one that died."
NEVER_FOR = "Not tried again: ValueError, or MODULE:CLASS. May be given again."
DRAIN = "How long functions may run on after a signal."

Run: TypeAlias = Callable[[], Worked]
Surface: TypeAlias = Callable[..., Run]
"""Makes a worker from options, and returns the function that runs it."""


@click.command(short_help="Run MODULE:FUNCTION for each message of a group.")
@click.argument("function", metavar="MODULE:FUNCTION")
@click.option("--topic", "topics", multiple=True, required=True, help="A name or a pattern. May be given again.")
@click.option("--group", required=True, help="As a member of this group.")
@click.option(
    "--concurrency", type=click.IntRange(1, 10_000), default=10, show_default=True, metavar="N", help=AT_ONCE
)
@click.option("--trio", TRIO, is_flag=True, help="Run an async function on Trio.")
@click.option("--asyncio", ASYNCIO, is_flag=True, help="Run an async function on asyncio, as is usual.")
@click.option("--threads", THREADS, is_flag=True, help="Run a plain function in threads, as is usual.")
@click.option(
    "--from", "start", type=StartOffset(), default=EARLIEST, show_default=True, help="For a group that is new."
)
@click.option("--visibility-timeout", type=Length(), default=30.0, show_default=True, metavar="SECONDS", help=LEASE)
@click.option("--max-deliveries", type=int, metavar="N", help="The group's; then to the dead-letter topic.")
@click.option("--retry-first", type=Length(), metavar="SECONDS", help="The group's: the wait before a first retry.")
@click.option("--retry-longest", type=Length(), metavar="SECONDS", help="The group's: to which the wait doubles.")
@click.option("--retry-jitter", type=float, metavar="SHARE", help="The group's: so much a wait may be shorter.")
@click.option("--never-for", multiple=True, metavar="EXCEPTION", help=NEVER_FOR)
@click.option("--shared/--not-shared", default=None, help="The group's: every member takes from every partition.")
@click.option("--key-order/--no-key-order", default=None, help="The group's: a key's messages one by one.")
@click.option("--lanes", type=click.Choice([WEIGHTED, STRICT]), help="The group's: how priorities share.")
@click.option("--assignor", type=click.Choice(ASSIGNORS), help="The group's: how partitions are shared out.")
@click.option("--rebalance", type=click.Choice(REBALANCES), help="The group's: what is let go when members change.")
@click.option("--member-id", help="A name that keeps the partitions through a restart.")
@click.option("--drain-timeout", type=Length(), default=30.0, show_default=True, metavar="SECONDS", help=DRAIN)
@broker_options
@output_option
def work(function: str, topics: tuple[str, ...], output: str, broker: BrokerAddress, **options: Any) -> None:
    """Run MODULE:FUNCTION for each message of a group, until SIGTERM or SIGINT.

    A plain function runs in threads, an async one on asyncio. A message is acked when the function returns; when it
    raises it is nacked with the reason, and comes again. A new group is shared and tries a message 40 times, unless
    told otherwise. The module is also looked for in the current folder. A signal drains: no more messages are
    taken, and what runs has --drain-timeout to end; a second signal ends it at once.

    Exits with 0 when all that was begun has ended, with 1 when something was cut off or the broker refused, with 2
    when the function cannot be run.
    """
    kind = _only_kind([each for each in (TRIO, ASYNCIO, THREADS) if options.pop(each)])
    handler = _function_in(function)
    options["retry"] = _retry_in(options)
    surface = _surface(handler, kind, function)
    run = _checked(surface, topics, handler=handler, url=broker.url, **options)
    ask(broker, partial(_look, topics))
    _log_to_stderr()
    worked = _worked(run)
    _write(worked, output)
    end(Exit.DAMAGE if worked.cancelled else Exit.SOUND)


def _checked(surface: Surface, topics: tuple[str, ...], **options: Any) -> Run:
    """Options that cannot work are refused before the broker is asked."""
    asked = topics[0] if len(topics) == 1 else topics
    try:
        return surface(topic=asked, name="goqueue work", **options)
    except GoQueueError as error:
        raise Misuse(printable(error.message)) from None


async def _look(topics: tuple[str, ...], client: Client) -> None:
    for topic in topics:
        await check_there(client, topic, follow=True)


def _worked(run: Run) -> Worked:
    try:
        with ended_by_others():
            return run()
    except HandlerCannotRun as error:
        raise Misuse(printable(error.message)) from None
    except GoQueueError as error:
        raise click.ClickException(printable(error.message)) from None


def _log_to_stderr() -> None:
    """As a broker does, unless the module has a log of its own."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _write(worked: Worked, output: str) -> None:
    if output == JSON:
        write_json(worked._asdict())
    else:
        write_table(COLUMNS, [[str(count) for count in worked]])


# The function


def _function_in(function: str) -> Callable[..., Any]:
    found = _imported(function, "MODULE:FUNCTION; give for example billing:handle")
    if not callable(found):
        raise Misuse(f"{printable(function)} is no function, but of type {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _imported(name_in_module: str, form: str) -> Any:
    module_name, _, name = name_in_module.partition(":")
    if not module_name or not name:
        raise Misuse(f"{printable(name_in_module)} is not like {form}")
    found: Any = _imported_module(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            raise Misuse(f"{printable(module_name)} has no {printable(name)}; give the name of something in it")
        found = getattr(found, part)
    return found


def _imported_module(name: str) -> Any:
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise Misuse(f"there is no module {printable(name)}, neither here nor installed") from None
        raise _broken(name, error) from None
    except Exception as error:
        raise _broken(name, error) from None


def _broken(name: str, error: Exception) -> Misuse:
    text = printable(f"{type(error).__name__}: {error}")
    return Misuse(f"{printable(name)} cannot be imported: {text}")


# What becomes of failures


def _retry_in(options: dict[str, Any]) -> goqueue.Retry | None:
    given = {name: options.pop(f"retry_{name}") for name in ("first", "longest", "jitter")}
    classes = tuple(_exception_in(name) for name in options.pop("never_for"))
    if not classes and set(given.values()) == {None}:
        return None
    try:
        return goqueue.Retry(**given, never_for=classes)
    except GoQueueError as error:
        raise Misuse(printable(error.message)) from None


def _exception_in(name: str) -> Any:
    place = name if ":" in name else f"builtins:{name}"
    return _imported(place, "MODULE:CLASS; give for example ValueError or billing:Declined")


# How it runs


def _only_kind(given: list[str]) -> str | None:
    if len(given) > 1:
        raise Misuse(f"a function runs in one way; give one of {' and '.join(f'--{kind}' for kind in given)}")
    return given[0] if given else None


def _surface(handler: Callable[..., Any], kind: str | None, function: str) -> Surface:
    if is_async(handler):
        if kind == THREADS:
            raise Misuse(f"{printable(function)} is async, and --threads is for plain functions; leave it out")
        return _on_trio if kind == TRIO else _on_asyncio
    if kind in (ASYNCIO, TRIO):
        raise Misuse(f"{printable(function)} is a plain function; write it with `async def`, or leave out --{kind}")
    return _in_threads


def _on_trio(**options: Any) -> Run:
    return partial(trio.run, goqueue.Worker(**options).run)


def _on_asyncio(**options: Any) -> Run:
    worker = goqueue.aio.Worker(**options)
    return lambda: asyncio.run(worker.run())


def _in_threads(**options: Any) -> Run:
    return goqueue.blocking.Worker(**options).run
