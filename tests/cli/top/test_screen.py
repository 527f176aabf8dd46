"""The terminal is given back whatever happens. A pair of pseudo-terminals stands for it."""

import os
import pty
import signal
import termios
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TextIO

import pytest
import trio
from rich.console import Console
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.cli.top.command import LivePage, show_live
from goqueue.cli.top.page import PageLine
from goqueue.cli.top.rates import Look
from goqueue.cli.top.screen import Screen
from tests.cli.top.looks import look, topic

END = "<end>"
ALT, BACK = "\x1b[?1049h", "\x1b[?1049l"


@dataclass
class Terminal:
    """`person` is the end at which somebody sits."""

    person: int
    program: int
    output: TextIO

    @property
    def mode(self) -> object:
        return termios.tcgetattr(self.program)

    def screen(self) -> Screen:
        console = Console(file=self.output, force_terminal=True, width=60, height=12, color_system=None)
        return Screen(console, self.program)

    def shown(self) -> str:
        """All that was written so far."""
        self.output.write(END)
        self.output.flush()
        found = ""
        while not found.endswith(END):
            found += os.read(self.person, 65_536).decode()
        return found

    def press(self, keys: bytes) -> None:
        os.write(self.person, keys)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    person, program = pty.openpty()
    with open(program, "w", closefd=False) as output:
        yield Terminal(person, program, output)
    os.close(person)
    os.close(program)


def test_it_is_given_back_as_it_was(terminal: Terminal) -> None:
    before = terminal.mode
    with terminal.screen() as screen:
        assert terminal.mode != before, "keys come as they are pressed"
        screen.draw([PageLine("hello", is_title=True), PageLine("world")])
    shown = terminal.shown()
    assert "hello" in shown
    assert shown.index(ALT) < shown.index("world") < shown.index(BACK)
    assert terminal.mode == before


def test_it_is_given_back_after_a_failure(terminal: Terminal) -> None:
    before = terminal.mode
    with pytest.raises(ZeroDivisionError), terminal.screen():
        raise ZeroDivisionError
    assert terminal.mode == before
    assert BACK in terminal.shown()


def test_while_the_program_is_suspended_it_is_as_it_was(terminal: Terminal) -> None:
    before = terminal.mode
    with terminal.screen() as screen:
        screen.give_back()
        assert terminal.mode == before
        screen.take()
        assert terminal.mode != before
    assert terminal.mode == before
    assert terminal.shown().count(BACK) == 2


async def signals(*numbers: int) -> AsyncIterator[int]:
    for number in numbers:
        yield number
    await trio.sleep_forever()


async def soon() -> Look:
    return look(1.0, topics=[topic("orders")])


@pytest.mark.parametrize("keys", [b"q", b"Q", b"\x1b[Axyz q"])
async def test_q_leaves_and_other_keys_mean_nothing(
    terminal: Terminal, autojump_clock: MockClock, keys: bytes
) -> None:
    async def press() -> None:
        terminal.press(b"x")
        await trio.sleep(3)
        terminal.press(keys)

    with terminal.screen() as screen, trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(press)
            assert not await show_live(soon, "ws://here", screen, signals())
    assert "orders" in terminal.shown()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_it_in_order(terminal: Terminal, autojump_clock: MockClock, number: int) -> None:
    with terminal.screen() as screen:
        assert await show_live(soon, "ws://here", screen, signals(number))


async def test_a_broker_that_does_not_answer_is_named_and_the_last_page_stays(
    terminal: Terminal, autojump_clock: MockClock
) -> None:
    with terminal.screen() as screen:
        page = LivePage("ws://here", screen)
        page.show(await soon())
        terminal.shown()
        await trio.sleep(7)
        page.show(None)
        shown = terminal.shown()
    assert "no answer for 7.0 s" in shown
    assert "orders" in shown


async def test_a_look_that_takes_too_long_is_given_up(terminal: Terminal, autojump_clock: MockClock) -> None:
    async def never() -> Look:
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    with terminal.screen() as screen:
        with trio.move_on_after(5):
            await show_live(never, "ws://here", screen, signals())
        await wait_all_tasks_blocked()
    assert "no answer for 4.0 s" in terminal.shown()
