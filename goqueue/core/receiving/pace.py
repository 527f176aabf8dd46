"""How many messages a program holds beyond those that it works on: in proportion to its speed.

Fast handlers never wait for the network, and slow ones keep nothing from other members. What a worker holds should
be begun within half a second, and what a program holds that receives a few messages at a time within a twentieth;
what was held for a second goes back, as they have become slower.
"""

AHEAD_SECONDS = 0.5
HELD_SECONDS_MAX = 1.0
BATCH_MAX = 500
"""Limit of messages that are held, however fast the handlers are."""
WEIGHT = 0.1
"""Weight of the newest handler in the mean time that one takes."""
SECONDS_MIN = 1e-6


class Pace:
    def __init__(self, slots: int, messages_max: int = BATCH_MAX, seconds: float = AHEAD_SECONDS) -> None:
        """What is held should be begun within `seconds`."""
        self._slots = slots
        self._messages_max = messages_max
        self._seconds = seconds
        self._mean: float | None = None

    def ended(self, seconds: float) -> None:
        """A handler took this time."""
        if self._mean is None:
            self._mean = max(seconds, SECONDS_MIN)
        else:
            self._mean += WEIGHT * (max(seconds, SECONDS_MIN) - self._mean)

    def was_too_fast(self) -> None:
        """Messages were held for too long: nothing is held until a handler has ended."""
        self._mean = None

    @property
    def ahead(self) -> int:
        """The number of messages to hold; 0 as long as no handler has ended."""
        if self._mean is None:
            return 0
        return min(self._messages_max, int(self._slots * self._seconds / self._mean))
