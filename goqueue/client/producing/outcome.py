"""The outcome of one `send`, `send_nowait` or `send_many`: a Published or an error for each of its messages.

Messages that were confirmed together are kept as a run: a first offset and a count. An object for each is made when
the program reads it; a program that only waits for success never pays for them, and neither does its garbage
collector.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Protocol, TypeAlias, overload

import trio

from goqueue.client.reading.message import Published
from goqueue.errors import GoQueueError
from goqueue.net.wire import messages as wire
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.kinds import Answer
from goqueue.types import Offset

Result: TypeAlias = Published | GoQueueError
FAILURES_MAX = 1_000
"""Limit of kept errors of messages that no call waits for; further ones are only counted in the log."""


class ConfirmedRun(NamedTuple):
    """Messages of a call that are next to each other in a partition."""

    first: int
    length: int
    partition: int
    base_offset: Offset | None

    def published(self, topic: str) -> Iterator[Published]:
        base = self.base_offset
        offsets = repeat(None, self.length) if base is None else range(base, base + self.length)
        return map(tuple.__new__, repeat(Published), zip(repeat(topic), repeat(self.partition), offsets))


class Confirmations(Sequence[Published]):
    """One Published for each message of a call, in order, made when the program reads it."""

    __slots__ = ("_count", "_runs", "_topic")

    def __init__(self, topic: str, runs: Sequence[ConfirmedRun]) -> None:
        self._topic = topic
        self._runs = sorted(runs)
        self._count = sum(run.length for run in runs)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Published]:
        for run in self._runs:
            yield from run.published(self._topic)

    @overload
    def __getitem__(self, index: int) -> Published: ...

    @overload
    def __getitem__(self, index: slice) -> list[Published]: ...

    def __getitem__(self, index: int | slice) -> Published | list[Published]:
        if isinstance(index, slice):
            return list(self)[index]
        place = range(self._count)[index]
        run = next(run for run in self._runs if place < run.first + run.length)
        offset = None if run.base_offset is None else run.base_offset + place - run.first
        return Published(self._topic, run.partition, offset)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(map(_equal, self, other))

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __add__(self, other: Sequence[Any]) -> list[Any]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Any]) -> list[Any]:
        return [*other, *self]

    def __repr__(self) -> str:
        return repr(list(self))


def _equal(one: object, other: object) -> bool:
    return one == other


class AnyOutcome(Protocol):
    """What a sender tells about the messages of a chunk. Methods return how many messages they settled."""

    since: float

    @property
    def is_settled(self) -> bool: ...

    def confirm(self, places: Sequence[int], topic: str, partition: int, base_offset: Offset | None) -> int: ...

    def fail(self, places: Sequence[int], error: GoQueueError) -> int: ...

    def settle(self, place: int, result: Result) -> int: ...

    def give_up(self, error: GoQueueError) -> int: ...


class Outcome:
    __slots__ = ("_count", "_done", "_results", "_runs", "_topic", "_unheard", "has_failed", "remaining", "since")

    def __init__(self, count: int, since: float, unheard: list[GoQueueError] | None = None) -> None:
        """`unheard` gets the errors, when no call waits for this one."""
        self._count = self.remaining = count
        self.has_failed = False
        self.since = since
        """When it began to wait, in Trio's time."""
        self._unheard = unheard
        self._done: trio.Event | None = None
        self._topic = ""
        self._runs: list[ConfirmedRun] = []
        self._results: list[Result | None] | None = None
        """The result of each message, once runs no longer suffice."""

    @property
    def is_settled(self) -> bool:
        return self.remaining == 0

    async def wait(self) -> None:
        if self.remaining:
            self._done = self._done or trio.Event()
            await self._done.wait()

    @property
    def results(self) -> list[Result | None]:
        if self._results is None:
            self._results = [None] * self._count
            for run in self._runs:
                self._results[run.first : run.first + run.length] = run.published(self._topic)
        return self._results

    @property
    def result(self) -> Result:
        """The result of a single message, once it is settled."""
        if self._results is None:
            [run] = self._runs
            return Published(self._topic, run.partition, run.base_offset)
        [result] = self._results
        assert result is not None
        return result

    @property
    def confirmations(self) -> Sequence[Published]:
        """The confirmations of a settled call without a failure."""
        if self._results is None:
            return Confirmations(self._topic, self._runs)
        return self._results  # type: ignore[return-value]  # every one is settled, and none is an error

    def confirm(self, places: Sequence[int], topic: str, partition: int, base_offset: Offset | None) -> int:
        """These messages are written, one after the other from this offset on. Returns how many that settles."""
        run = ConfirmedRun(places[0], len(places), partition, base_offset)
        if isinstance(places, range) and self._results is None:
            self._topic = topic
            self._runs.append(run)
            return self._note_settled(run.length)
        return sum(map(self.settle, places, run.published(topic)))

    def fail(self, places: Sequence[int], error: GoQueueError) -> int:
        return sum(self.settle(place, error) for place in places)

    def settle(self, place: int, result: Result) -> int:
        """Returns 1, or 0 if it was settled before: the first result holds."""
        results = self.results
        if results[place] is not None:
            return 0
        results[place] = result
        if isinstance(result, GoQueueError):
            self.has_failed = True
            if self._unheard is not None and len(self._unheard) < FAILURES_MAX:
                self._unheard.append(result)
        return self._note_settled(1)

    def give_up(self, error: GoQueueError) -> int:
        """Fail all messages that are not settled."""
        return self.fail([place for place, result in enumerate(self.results) if result is None], error)

    def _note_settled(self, count: int) -> int:
        self.remaining -= count
        if not self.remaining and self._done is not None:
            self._done.set()
        return count


def produced_in(answer: Answer | GoQueueError) -> wire.ProducedBatch | GoQueueError:
    """The outcome of the one batch of a request."""
    if isinstance(answer, GoQueueError):
        return answer
    assert isinstance(answer, wire.Produced)
    [produced] = answer.batches
    return produced if produced.error is None else error_of(produced.error)
