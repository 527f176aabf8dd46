"""A token bucket: a rate per second and a burst. Tokens that are not used in quiet times may be used later, up to
the burst."""


class Tokens:
    __slots__ = ("_at", "_most", "_per_second", "_there")

    def __init__(self, per_second: float, at_once: int, now: float) -> None:
        self._per_second = per_second
        self._most = float(at_once)
        self._there = self._most
        self._at = now

    def take(self, wanted: int, now: float) -> int:
        """Take up to `wanted` tokens; returns how many there were."""
        self._there = min(self._most, self._there + (now - self._at) * self._per_second)
        self._at = now
        taken = min(wanted, int(self._there))
        self._there -= taken
        return taken

    def ready_at(self, now: float) -> float:
        """When a twentieth of the burst is there: for fewer, a call is not worth while."""
        lacking = self._most / 20 - (self._there + (now - self._at) * self._per_second)
        return now + max(0.0, lacking / self._per_second)
