"""Long work in slices, between which others run."""

from dataclasses import dataclass, field

import trio

SLICE_SECONDS = 0.002


@dataclass(slots=True)
class Slices:
    """Call `step` after each piece of work; it lets others run whenever a slice of time is over."""

    _seconds: float = SLICE_SECONDS
    _since: float = field(default_factory=trio.current_time)

    async def step(self) -> None:
        if trio.current_time() - self._since >= self._seconds:
            await trio.lowlevel.checkpoint()
            self._since = trio.current_time()
