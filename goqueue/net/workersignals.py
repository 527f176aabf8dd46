"""What SIGTERM and SIGINT say to a worker: the first one to drain, the second to end at once.

With the second, what the signals did before is in force again: so a third one ends whatever still stands.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def signals_stop(stop: Callable[[], None], stop_at_once: Callable[[], None]) -> Iterator[None]:
    """For a block in the main thread: elsewhere Python allows nobody to handle signals, and raises ValueError."""
    steps = iter([stop, stop_at_once])

    def step(_number: int, _frame: FrameType | None) -> None:
        if (following := next(steps, None)) is not None:
            following()
        if following is not stop:
            restore()

    def restore() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is step:
                signal.signal(number, handler)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, step)
    try:
        yield
    finally:
        restore()
