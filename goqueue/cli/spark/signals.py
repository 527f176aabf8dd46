"""Ctrl-C and SIGTERM for commands on Spark, from before Spark starts until nothing of it runs any more.

An exception in the middle of a call to Java leaves an answer that the next call would take for its own. So a signal
is kept for work that looks for it often. Where nothing looks for it, Java is ended first: nothing is called after
that, and every error that follows is reported as an interruption. Nothing is lost by it: the commands can be killed
at any moment.
"""

import signal
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import IO, Any

import click

from goqueue.cli.program.running import Exit
from goqueue.cli.spark.java import Java

CODES = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Interrupted(click.ClickException):
    """The command was ended by a signal; the caller adds what was done."""

    def __init__(self, number: signal.Signals, more: str = "") -> None:
        super().__init__(f"Ended by {NAMES[number]} {more}".rstrip())
        self._number = number
        vars(self)["exit_code"] = CODES[number]  # click reads it as an attribute of the class

    def telling(self, more: str) -> "Interrupted":
        return Interrupted(self._number, more)

    def show(self, file: IO[Any] | None = None) -> None:
        """Without the word Error: it is none."""
        click.echo(self.message, file=file, err=True)


class Signals:
    def __init__(self) -> None:
        self.java = Java()
        self.is_over = False
        """The work is done or has failed: a signal only hastens the end."""
        self._came: signal.Signals | None = None
        self._is_looked_for = False

    def look(self) -> None:
        """For work that ends in order, between its calls to Java. Work that calls this once calls it often."""
        self._is_looked_for = True
        if self._came is not None:
            raise KeyboardInterrupt

    def take(self, number: int, _frame: FrameType | None = None) -> None:
        """A first signal waits for `look`. After the next, or if nothing looks, all ends at once."""
        is_first = self._came is None
        self._came = self._came or signal.Signals(number)
        self.java.is_silent = True
        if not (is_first and self._is_looked_for) or self.is_over:
            self._end_at_once()

    def _end_at_once(self) -> None:
        """While Java starts nothing is raised, as an unknown process could be left; the start fails by itself."""
        warnings.simplefilter("ignore")  # PySpark warns that Java is gone
        is_known = self.is_over or self.java.is_starting or self.java.is_unwanted
        self.java.ask_to_end()
        if not is_known:
            raise KeyboardInterrupt

    @contextmanager
    def taken(self) -> Iterator[None]:
        """For a block, at whose end Java has ended. An error in it after a signal is `Interrupted`."""
        before = {number: signal.getsignal(number) for number in CODES}
        self.take_over()
        try:
            yield
        except (Exception, KeyboardInterrupt):
            if self._came is None:
                raise
            raise Interrupted(self._came) from None
        finally:
            self.is_over = True
            self.java.end()
            _listen(before)

    def take_over(self) -> None:
        """Also from PySpark, whose handler of Ctrl-C asks Java to cancel all jobs in the middle of another call:
        both fail, with a long trace."""
        _listen(dict.fromkeys(CODES, self.take))


def _listen(handlers: Mapping[signal.Signals, Any]) -> None:
    """Only in the main thread: others may not set handlers, and get no signals."""
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            signal.signal(number, handler)
