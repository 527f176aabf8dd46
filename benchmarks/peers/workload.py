"""What every contender is asked to do, and how it is held to it.

A workload is asked for a number of messages and answers with seconds. It makes its connection, its queue and, for
reading, the messages before its clock starts, and checks after its clock has stopped that every message was
confirmed or came back in order with its value: a run that went wrong has no figure.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

SIZE = 100
BLOCK = [b"%0*d" % (SIZE, number) for number in range(1_000)]
"""The values, over and over. Counts of messages are multiples of their number."""


class What(Enum):
    PUBLISH = "publish"
    READ = "read"
    SINGLE = "single publish"

    @property
    def unit(self) -> str:
        return "ms" if self is What.SINGLE else "messages/s"


@dataclass(frozen=True, slots=True)
class Workload:
    key: str
    """Names it in goals and in the file of figures."""
    peer: str
    what: What
    way: str
    """How the client does it."""
    durability: str
    """What a confirmation promises; for reading, what the reader leaves behind."""
    run: Callable[[int], float]
    """Seconds for so many messages; of single publishes, the median seconds of one."""

    def figure(self, count: int, seconds: float) -> float:
        return seconds * 1_000 if self.what is What.SINGLE else count / seconds


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    version: str
    workloads: list[Workload]


Start = Callable[[Path], AbstractContextManager[Peer]]
"""Starts a server in this folder, and ends it. Raises Unavailable when it is not there."""


class Wrong(Exception):
    """A contender did not do what it was timed for."""


def blocks(count: int) -> Iterator[list[bytes]]:
    for _ in range(count // len(BLOCK)):
        yield BLOCK


def check_count(found: int, expected: int, doing: str) -> None:
    if found != expected:
        raise Wrong(f"{doing}: {found:,} of {expected:,}")


def check_values(found: list[bytes], count: int) -> None:
    """Every value, in the order in which they were published."""
    check_count(len(found), count, "read back")
    for begin in range(0, count, len(BLOCK)):
        if found[begin : begin + len(BLOCK)] != BLOCK:
            raise Wrong(f"the values from {begin:,} on are not those that were published")
