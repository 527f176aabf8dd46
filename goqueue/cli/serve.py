"""`goqueue serve`: the broker."""

import json
import logging
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from random import SystemRandom
from typing import NoReturn
from uuid import UUID

import click
import trio

from goqueue.cli.config import settings_options
from goqueue.cli.logs import TEXT, logging_to_stderr
from goqueue.cli.process import BrokerProcess, keep_freed_memory, postpone_full_collections
from goqueue.cli.program.output import JSON, output_option, printable
from goqueue.cli.program.running import Misuse, ended_by_others
from goqueue.cli.startlines import tell_end, tell_start
from goqueue.environment import Environment, SystemClock, TcpNetwork
from goqueue.errors import GoQueueError
from goqueue.http.ports import Ports, serving
from goqueue.net.transport.origin import Address, AllowedCallers
from goqueue.settings import DEFAULT, LoadedSettings, Settings, host_and_port
from goqueue.storage.directory.datadirectory import FORMAT, META, META_SIZE_MAX, Meta
from goqueue.storage.disk.disk import RealDisk, descriptors_max

WORTH_A_WARNING = 0.9
"""Below this share of the websockets that were asked for: with 20,000 descriptors the defaults lack a tenth."""

logger = logging.getLogger("goqueue.serve")


@click.command()
@settings_options
@output_option
def serve(loaded: LoadedSettings, output: str) -> None:
    """Run a broker until SIGTERM or SIGINT. Port 0 picks a free one."""
    environment = Environment(RealDisk(), TcpNetwork(), SystemClock(), SystemRandom())
    _check_node(loaded)
    keep_freed_memory()
    postpone_full_collections()
    with logging_to_stderr(loaded.settings.log_level, loaded.settings.log_format), _telling_why_it_ends(loaded):
        trio.run(_serve, environment, loaded.settings, output)


@contextmanager
def _telling_why_it_ends(loaded: LoadedSettings) -> Iterator[None]:
    """A refusal is a sentence, as of any command. A log of JSON says it in JSON, and a bug with its traceback."""
    try:
        with ended_by_others():
            yield
    except GoQueueError as error:
        _end(loaded, error.message, error)
    except OSError as error:
        _end(loaded, f"{error}; choose another place", error)
    except Exception as error:
        logger.critical("the broker failed; this is a bug to report", exc_info=error)
        raise SystemExit(1) from None


def _end(loaded: LoadedSettings, sentence: str, error: Exception) -> NoReturn:
    if loaded.settings.log_format == TEXT:
        raise click.ClickException(sentence) from error
    logger.critical("%s", sentence)
    raise SystemExit(1)


def _check_node(loaded: LoadedSettings) -> None:
    """A directory keeps its node's name. Another name in the settings is a mistake: a wrong directory or node."""
    given, said_by = loaded.settings.node, loaded.origins["node"]
    written = _written_node(loaded.settings.data)
    if said_by != DEFAULT and written is not None and written != given:
        raise Misuse(
            f"{printable(loaded.settings.data)} belongs to node {printable(written)}, not to {given}"
            f" (from {printable(said_by)}); leave that out, or choose another directory with --data"
        )


def _written_node(data: str) -> str | None:
    """The node's name in the directory, or None. The broker itself handles a new, damaged or unknown directory."""
    try:
        with open(f"{data}/{META}", "rb") as file:
            fields = json.loads(file.read(META_SIZE_MAX))
        meta = Meta(UUID(fields["cluster"]), str(fields["node"]))
        return meta.node if fields["format"] == FORMAT else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


async def _serve(environment: Environment, settings: Settings, output: str) -> None:
    listen, http = Address(*host_and_port(settings.listen)), Address(*host_and_port(settings.http))
    began = trio.current_time()
    websockets, requests = _connections_max(settings.connections_max, settings.http_connections_max)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with serving(
            environment,
            settings.data,
            listen=listen,
            http=http,
            node=settings.node,
            disk_free_min=settings.disk_free_min,
            connections_max=websockets,
            http_connections_max=requests,
            metrics_series_max=settings.metrics_series_max,
            allowed_callers=AllowedCallers(settings.hosts, settings.origins),
            process=BrokerProcess(),
        ) as ports:
            _announce(ports, output)
            tell_start(ports.start, settings.data)
            name = await _told_to_stop(signals)
            logger.info("%s: stopping; clients may finish what they have begun", name)
        tell_end(name, trio.current_time() - began)


async def _told_to_stop(signals: AsyncIterator[int]) -> str:
    """The name of the signal that ends the broker."""
    async for number in signals:
        if number != signal.SIGHUP:
            return signal.Signals(number).name
        _read_again()
    raise AssertionError("signals do not end")


def _read_again() -> None:
    """SIGHUP asks for what may change while the broker runs. There is nothing of the kind yet."""
    logger.info("SIGHUP: there is nothing to read again; settings are read at the start")


def _connections_max(websockets: int, requests: int) -> tuple[int, int]:
    """Half of the descriptors at most, for both together: a log that cannot open its next segment ends the node.
    HTTP has a quarter of that half for sure, and what websockets leave of it."""
    asked, possible = websockets, descriptors_max() // 2
    if possible < websockets + requests:
        requests = min(requests, max(possible // 4, possible - websockets))
        websockets = min(websockets, possible - requests)
    if websockets < asked * WORTH_A_WARNING:
        logger.warning(
            "only %d websockets and %d HTTP connections are possible; allow more open files (ulimit -n), or set"
            " connections_max and http_connections_max",
            *(websockets, requests),
        )
    return websockets, requests


def _announce(ports: Ports, output: str) -> None:
    """One line, and nothing else on stdout, ever."""
    websocket, address = f"ws://{_text(ports.websocket)}", f"http://{_text(ports.http)}"
    if output == JSON:
        line = json.dumps({"websocket": websocket, "http": address})
    else:
        line = f"goqueue listens on {websocket} and {address}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _text(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
