"""How far a group may stand on one partition, as far as that can be known from outside.

Whoever owns the partition commits one offset after the other, some of them by itself at times that nobody is told.
So each offset that may have been committed is an option, in the order in which they take effect. Whoever sees where
the group stands, and whoever hears that a commit was made, excludes what was before: nothing may bring it back but
the loss of power.
"""

from dataclasses import dataclass, field

import trio


@dataclass(slots=True)
class Progress:
    options: list[int | None]
    """The first is where the group began; None when that is not known."""
    _floors: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])
    """Since when which option is the first that may stand."""
    _power_cut_at: float = -1.0
    _end_least: int | None = None
    """The log was at least so long when the power failed last."""

    def offer(self, offset: int) -> int:
        """From now on this may be committed. The number of the option."""
        if self.options[-1] != offset:
            self.options.append(offset)
        return len(self.options) - 1

    def settle(self, number: int) -> None:
        """This option was committed, or a later one."""
        self._floors.append((trio.current_time(), max(number, self._floors[-1][1])))

    def lose_power(self, end_least: int) -> None:
        """It may stand anywhere where it ever did, also for those who began to look before."""
        self._floors, self._power_cut_at, self._end_least = [(0.0, 0)], trio.current_time(), end_least

    def begin_anew(self) -> None:
        """Its ledger is lost: it may also stand at the beginning."""
        if self.options[0] is not None:
            self.options.insert(0, 0)

    def may_stand_at(self, offset: int, since: float) -> bool:
        """Somebody saw it there, at some time from `since` to now. Of several options it is the first. What was
        seen before the power failed excludes nothing."""
        floor = next((number for at, number in reversed(self._floors) if at < since), 0)
        for number in range(floor, len(self.options)):
            if self.options[number] == offset:
                self.settle(number if since > self._power_cut_at else 0)
                return True
        if floor == 0 and self.options[0] is None:
            self.options[0] = offset
            return True
        return self._is_cut_back(offset)

    def _is_cut_back(self, offset: int) -> bool:
        """§3: what the log lost with the power, progress loses too: it stands at the end of what is left."""
        is_cut = self._end_least is not None and self._end_least <= offset < max(each or 0 for each in self.options)
        if is_cut:
            self.offer(offset)
        return is_cut

    def __str__(self) -> str:
        first = self._floors[-1][1]
        return f"one of {self.options[first:]}, before of {self.options[:first]}"
