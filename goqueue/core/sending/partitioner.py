"""Which partition a message goes to (G4).

By key: murmur3 x86-32 with seed 0, unsigned, modulo the number of partitions, so that every client in every
language agrees. Without a key: all of a batch to one partition, the next batch to the next, beginning at a random
one. A call with many keyless messages is spread over the partitions in long runs. Or as the caller says.

The choice is made once, by the producer, and travels with the batch as its partition. The broker never chooses
again: a second choice would tear the batch apart from what was checked, counted and promised for the first.
"""

from collections.abc import Iterable

import mmh3

from goqueue.core.sending.chunk import Chunk
from goqueue.errors import UnknownPartition

RUN_MIN = 500
"""Minimum length of a run of keyless messages when a call is spread over partitions: smaller ones would cost each
partition a batch for little."""


def partition_of_key(key: bytes, partitions: int) -> int:
    return mmh3.hash(key, 0, signed=False) % partitions


def check_partition(partition: object, partitions: int) -> int:
    """A partition that the caller named, or `UnknownPartition`."""
    if type(partition) is not int:
        raise UnknownPartition(f"a partition is a whole number, not {type(partition).__name__}")
    if not 0 <= partition < partitions:
        raise UnknownPartition(
            f"there is no partition {partition}: the topic has {partitions}, numbered from 0",
            partitions=partitions,
        )
    return partition


class Partitioner:
    """One producer's choices for one topic. `first` spreads producers: the caller draws it, from any range."""

    def __init__(self, partitions: int, first: int) -> None:
        assert partitions >= 1
        self._partitions = partitions
        self._keyless = first % partitions
        self._avoided: frozenset[int] = frozenset()

    @property
    def partitions(self) -> int:
        return self._partitions

    def resize(self, partitions: int) -> None:
        """The topic has another number of partitions: more, or fewer when it was made anew."""
        assert partitions >= 1
        self._partitions = partitions
        self._keyless %= partitions
        self._avoided = frozenset()

    def avoid(self, numbers: Iterable[int]) -> None:
        """Messages without a key avoid these partitions, which cannot be written to, unless no other is left."""
        self._avoided = frozenset(numbers)
        if self._keyless in self._avoided:
            self.begin_next_batch()

    def avoid_also(self, number: int) -> bool:
        """Avoid one more; returns whether there is another one to go to."""
        self.avoid(self._avoided | {number})
        return len(self._avoided) < self._partitions

    def choose(self, key: bytes | None = None, partition: int | None = None) -> int:
        """Where a message goes. Without a key it is the same answer until the next batch begins."""
        if partition is not None:
            return check_partition(partition, self._partitions)
        return partition_of_key(key, self._partitions) if key else self._keyless

    def portions(self, chunk: Chunk) -> list[tuple[int, Chunk]]:
        """The messages of a call for each of their partitions."""
        if chunk.partition is not None:
            return [(check_partition(chunk.partition, self._partitions), chunk)]
        if chunk.keys is None:
            return self._runs(chunk)
        numbers: dict[int, list[int]] = {}
        for index, key in enumerate(chunk.keys):
            numbers.setdefault(self.choose(key), []).append(index)
        return [(number, chunk.picked(indexes)) for number, indexes in numbers.items()]

    def _runs(self, chunk: Chunk) -> list[tuple[int, Chunk]]:
        count = min(self._partitions - len(self._avoided), len(chunk) // RUN_MIN)
        if count < 2:
            return [(self._keyless, chunk)]
        runs = []
        for run in chunk.shares(count):
            runs.append((self._keyless, run))
            self.begin_next_batch()
        return runs

    def begin_next_batch(self) -> None:
        """The batch of keyless messages is sent: the next one goes to another partition."""
        for _ in range(self._partitions):
            self._keyless = (self._keyless + 1) % self._partitions
            if self._keyless not in self._avoided:
                break
