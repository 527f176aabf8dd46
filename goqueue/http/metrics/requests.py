"""Counts of HTTP requests: a series for each route, never for each path."""

from goqueue.core.histogram import Histogram

METHODS, OTHER = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}), "other"
"""The methods that are told apart: a client may send any word."""


class HttpCounts:
    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        """By method, route and status."""
        self.seconds: dict[tuple[str, str], Histogram] = {}
        self.in_progress = 0

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        method = method if method in METHODS else OTHER
        key = (method, route, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        times = self.seconds.get((method, route))
        if times is None:
            times = self.seconds[method, route] = Histogram()
        times.add(seconds)
