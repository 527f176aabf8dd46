"""The bound on remembered producers that all partitions of a node share.

Each partition that has producers is noted with the last append of its longest silent one. That time only rises, so
the note may lag behind: it is brought up to date when it is the earliest. So to find the longest silent producer of
a node costs a few steps, and to note a batch of a known producer none.
"""

from dataclasses import dataclass

from goqueue.core.deadlines import Deadlines
from goqueue.core.log.producerids import ProducerIds
from goqueue.core.log.producers import NO_BOUND, PARTITION_PRODUCERS_MAX, ProducerStates
from goqueue.types import Microseconds

NODE_PRODUCERS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class ProducerLimits:
    partition_max: int = PARTITION_PRODUCERS_MAX
    node_max: int = NODE_PRODUCERS_MAX
    inline_max: int = 100
    """Limit of the producers that a seal or recovery point holds itself. More of them are in a file of their
    own."""
    replayed_batches_min: int = 1_000
    """Batches behind that file before it is written anew; and at least half as many as it holds producers."""
    replayed_bytes_max: int = 8 * 1024 * 1024
    """Bytes of the log behind that file before it is written anew, so that a start reads little."""
    slice_seconds: float = 0.002
    """The longest time for which writing or reading that file keeps the event loop."""


class NodeProducers:
    def __init__(self, limits: ProducerLimits | None = None) -> None:
        self.limits = limits or ProducerLimits()
        self.forgotten_to = 0
        """The highest id that any partition has forgotten."""
        self.forgotten = 0
        """The number of producers that were forgotten."""
        self._ids = ProducerIds()
        self._members: set[ProducerStates] = set()
        self._count = 0
        self._silent: Deadlines[ProducerStates] = Deadlines()

    def next_id(self, now: Microseconds, number: int) -> int:
        """For a new producer: an id that no partition of this node takes for a forgotten one."""
        return self._ids.next(now, number, self.forgotten_to)

    def __len__(self) -> int:
        """Remembered producers of clients, on all partitions together."""
        return self._count

    def enter(self, states: ProducerStates) -> None:
        """A partition opens, and its producers count from now on."""
        self._members.add(states)
        self._count += states.clients
        self.forgotten_to = max(self.forgotten_to, states.forgotten_to)
        states.share(self, self.limits.partition_max)
        if states.clients:
            self.note_first(states)
        self._keep_bound()

    def leave(self, states: ProducerStates) -> None:
        """A partition closes. To leave twice changes nothing."""
        if states in self._members:
            self._members.remove(states)
            self._silent.drop(states)
            self._count -= states.clients
            states.share(NO_BOUND, self.limits.partition_max)

    def note_first(self, states: ProducerStates) -> None:
        """This partition has its first producer of a client."""
        self._silent.note(states, states.silent_since or 0)

    def note_more(self) -> None:
        self._count += 1
        self._keep_bound()

    def note_forgotten(self, forgotten_to: int) -> None:
        self._count -= 1
        self.forgotten += 1
        self.forgotten_to = max(self.forgotten_to, forgotten_to)

    def _keep_bound(self) -> None:
        while self._count > self.limits.node_max:
            self._longest_silent().forget_longest_silent()

    def _longest_silent(self) -> ProducerStates:
        while True:
            states = self._silent.first()
            assert states is not None, "some partition has producers"
            since = states.silent_since
            if since is None:
                self._silent.drop(states)
            elif since == self._silent.next():
                return states
            else:
                self._silent.note(states, since)
