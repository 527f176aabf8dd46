"""The terminal, as long as `top` has it: another page, no cursor, keys as they are pressed.

It is given back whatever ends the program, and while the program is suspended.
"""

import os
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any

import trio
from rich.console import Console
from rich.control import Control
from rich.screen import Screen as FullPage
from rich.text import Text

from goqueue.cli.top.page import PageLine

LEAVE = b"qQ"
READ_SIZE = 256


class Screen:
    def __init__(self, console: Console, keyboard: int | None) -> None:
        """`keyboard` is the descriptor of a terminal; None: no keys are heard."""
        self._console = console
        self._keyboard = keyboard
        self._given_back = ExitStack()

    def __enter__(self) -> "Screen":
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()

    def take(self) -> None:
        if self._keyboard is not None:
            kept = termios.tcgetattr(self._keyboard)
            self._given_back.callback(self._restore, self._keyboard, kept)
            tty.setcbreak(self._keyboard)
        self._given_back.enter_context(self._console.screen(hide_cursor=True))

    def give_back(self) -> None:
        with suppress(OSError):  # the terminal is gone
            self._given_back.close()

    @staticmethod
    def _restore(keyboard: int, kept: list[Any]) -> None:
        with suppress(termios.error):
            termios.tcsetattr(keyboard, termios.TCSADRAIN, kept)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now."""
        return self._console.size

    def draw(self, lines: Sequence[PageLine]) -> None:
        text = Text(no_wrap=True, overflow="crop")
        for number, line in enumerate(lines):
            text.append("\n" * bool(number) + line.text, style="bold" if line.is_title else "")
        with self._console:  # in one write
            self._console.control(Control.home())
            self._console.print(FullPage(text), end="")

    async def leave_key(self) -> None:
        """Returns when somebody wants to leave, or the terminal has gone. Other keys mean nothing."""
        if self._keyboard is None:
            await trio.sleep_forever()
        while True:
            await trio.lowlevel.wait_readable(self._keyboard)
            try:
                keys = os.read(self._keyboard, READ_SIZE)
            except OSError:
                return
            if not keys or any(key in LEAVE for key in keys):
                return


def screen_of_terminal() -> Screen:
    return Screen(Console(), sys.stdin.fileno() if sys.stdin.isatty() else None)
