"""A progress bar. It has a file of its own, so that commands without one, as the broker, do not import rich."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TaskID, TimeRemainingColumn


class Bar:
    """Shows how far a long piece of work is."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def begin(self, total: int) -> None:
        self._progress.update(self._task, total=total)

    def advance(self, done: int) -> None:
        self._progress.advance(self._task, done)


@contextmanager
def progress_bar(*, counts_bytes: bool = True) -> Iterator[Bar]:
    """A bar that counts bytes or items. On stderr, and on a terminal only; removed when the work is done."""
    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn() if counts_bytes else MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bar(progress, progress.add_task("", total=None))
