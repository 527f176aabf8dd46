"""`goqueue top`: rates, groups and topics of a broker, each second, until `q`."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

import click
import trio

from goqueue.cli.program.asking import BrokerAddress, ask, broker_options
from goqueue.cli.program.output import JSON, output_option, printable, write_json, write_table
from goqueue.cli.program.running import Exit, Misuse
from goqueue.cli.program.watching import watching
from goqueue.cli.top.looking import look_at
from goqueue.cli.top.page import Page, age, fields_of, lines_of, page_of
from goqueue.cli.top.rates import Figures, Look, figures
from goqueue.cli.top.screen import Screen, screen_of_terminal
from goqueue.client.client import Client
from goqueue.nursery import PlainNursery

LOOK_SECONDS_MAX = 2.0
"""The time after which the page says that the broker does not answer."""
ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@click.command()
@click.option("--once", is_flag=True, help="Look for a second, print it, and end.")
@broker_options
@output_option
def top(*, once: bool, broker: BrokerAddress, output: str) -> None:
    """Show what the broker does, live; q leaves."""
    if once:
        ask(broker, lambda client: watching(lambda: look_at(client), _SecondLook(_printer(output)), 2))
        return
    if output == JSON:
        raise Misuse("-o json is for a single look; give --once, or see `goqueue stats --watch -o json`")
    if not sys.stdout.isatty():
        raise Misuse("stdout is no terminal; give --once")
    if ask(broker, lambda client: _live(client, broker.url, screen_of_terminal())):
        raise SystemExit(Exit.TERMINATED)


async def _live(client: Client, url: str, screen: Screen) -> bool:
    """Returns whether a signal ended it."""
    with screen, trio.open_signal_receiver(*ENDINGS, signal.SIGTSTP) as signals:
        return await show_live(partial(look_at, client), url, screen, signals)


async def show_live(
    look: Callable[[], Awaitable[Look]], url: str, screen: Screen, signals: AsyncIterator[int]
) -> bool:
    was_ended = False

    async def leave_on_key() -> None:
        await screen.leave_key()
        tasks.cancel_scope.cancel()

    async def heed_signals() -> None:
        nonlocal was_ended
        async for number in signals:
            if number == signal.SIGTSTP:
                _suspend(screen)
            else:
                was_ended = True
                tasks.cancel_scope.cancel()

    live = LivePage(url, screen)
    async with PlainNursery() as tasks:
        tasks.start_soon(leave_on_key)
        tasks.start_soon(heed_signals)
        await watching(partial(_look_within, look), live.show, None)
    return was_ended


async def _look_within(look: Callable[[], Awaitable[Look]]) -> Look | None:
    """None when the broker does not answer in time."""
    with trio.move_on_after(LOOK_SECONDS_MAX):
        return await look()
    return None


def _suspend(screen: Screen) -> None:
    """As Ctrl-Z suspends any program; it goes on here after `fg`."""
    screen.give_back()
    os.kill(os.getpid(), signal.SIGSTOP)
    screen.take()


class LivePage:
    """Shows each look with the rates since the one before; without an answer, the last page and since when."""

    def __init__(self, url: str, screen: Screen) -> None:
        self._url = printable(url)
        self._screen = screen
        self._before: Look | None = None
        self._page: Page | None = None
        self._answered_at = trio.current_time()

    def show(self, look: Look | None) -> None:
        if look is not None:
            self._page = page_of(figures(self._before, look))
            self._before, self._answered_at = look, trio.current_time()
        width, height = self._screen.size
        page = self._page or page_of(figures(None, Look({"connections.open": 0, "uptime_seconds": 0})))
        self._screen.draw(lines_of(page, self._title(is_answered=look is not None), width, height))

    def _title(self, *, is_answered: bool) -> str:
        if not is_answered:
            silent = trio.current_time() - self._answered_at
            return f"goqueue top   {self._url}   no answer for {age(silent)}   q leaves"
        assert self._before is not None
        up = age(float(self._before.counters["uptime_seconds"]))
        return f"goqueue top   {self._url}   up {up}   {datetime.now(UTC):%H:%M:%S} UTC   q leaves"


class _SecondLook:
    """Shows the rates between two looks."""

    def __init__(self, show: Callable[[Figures], None]) -> None:
        self._show = show
        self._before: Look | None = None

    def __call__(self, look: Look) -> None:
        if self._before is not None:
            self._show(figures(self._before, look))
        self._before = look


def _printer(output: str) -> Callable[[Figures], None]:
    return _write_json if output == JSON else _write_page


def _write_json(found: Figures) -> None:
    write_json(fields_of(found))


def _write_page(found: Figures) -> None:
    page = page_of(found)
    for line in page.head:
        click.echo(line)
    for table in (page.groups, page.topics):
        if table.rows:
            click.echo()
            write_table(table.columns, table.rows)
