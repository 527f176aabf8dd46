"""How messages were settled, remembered for clients that repeat a settlement because its answer was lost (G6).

A delivery under way notes its settlements. One that has ended is remembered in as little memory as possible: most
were settled whole, and a run or two say all. The rules for what a consumer may ask are here, too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from goqueue.core.ledger.attempts import AttemptRun, AttemptRuns, Attempts, AttemptSets, Standing, count
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.offsetset import CHUNK_BITS, CHUNK_SIZE, OffsetSet, Run
from goqueue.core.receipts import OFFSET_MAX
from goqueue.errors import ProtocolError
from goqueue.types import Offset

SETTLED_REMEMBERED = 256
FEW = 8
MESSAGES_MAX = 10_000
"""Limit of the messages of one delivery."""
LEASE_MS_MAX = 12 * 60 * 60 * 1_000
DELAY_MS_MAX = 366 * 24 * 60 * 60 * 1_000
"""Limit of the wait before a retry."""
RUNS_TOGETHER_MAX = 4_096
"""Limit of the runs that are named in one write. It is one batch, and batches are bounded."""

ItemT = TypeVar("ItemT")


class Settlement(IntEnum):
    """How a consumer settled a message. The numbers are written in snapshots."""

    ACKED = 0
    NACKED = 1
    REJECTED = 2
    RELEASED = 3


class SettledRun(NamedTuple):
    first: Offset
    last: Offset
    attempt: int
    kind: Settlement


class Settlements:
    """The settlements of one delivery. A message is settled once, so it is under one kind."""

    __slots__ = ("_growing", "_parts")

    def __init__(self) -> None:
        self._parts: list[tuple[Settlement, Attempts]] = []
        self._growing: dict[Settlement, Attempts] = {}
        """The parts that are of no other owner: single runs are added to these."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def note(self, kind: Settlement, taken: Attempts) -> None:
        """`taken` must not change any more."""
        if taken:
            self._parts.append((kind, taken))
        if len(self._parts) > FEW:
            self._parts = [(kind, some) for kind in Settlement if (some := self.of(kind))]
            self._growing = dict(self._parts)

    def note_run(self, kind: Settlement, run: AttemptRun) -> None:
        first, last, attempt = run
        standing, some = Standing(attempt, lost=False), self._growing.get(kind)
        if some is not None:
            some.add(standing, Run(first, last))
            return
        some = self._growing[kind] = Attempts()
        some.add(standing, Run(first, last))
        self.note(kind, some)

    def of(self, kind: Settlement) -> Attempts:
        some = Attempts()
        for noted, taken in self._parts:
            if noted is kind:
                for standing, offsets in taken.items():
                    some.add_all(Standing(standing.attempt, lost=False), offsets)
        return some

    def runs(self) -> Iterator[SettledRun]:
        parts = ((kind, *item) for kind, taken in self._parts for item in taken.items())
        return (SettledRun(*run, standing.attempt, kind) for kind, standing, sets in parts for run in sets.runs())

    def others_to_plain(self) -> list[Any]:
        """All but the acks, which stand by themselves: older snapshots have only those."""
        by_kind = [(kind, self.of(kind)) for kind in Settlement if kind]
        return [[int(kind), some.to_plain()] for kind, some in by_kind if some]

    @classmethod
    def from_plain(cls, acked: Any, others: Any = ()) -> "Settlements":
        settlements = cls()
        for kind, some in [(0, acked), *others]:
            settlements.note(Settlement(kind), Attempts.from_plain(some))
        return settlements

    @classmethod
    def from_runs(cls, runs: tuple[SettledRun, ...]) -> "Settlements":
        settlements = cls()
        for first, last, attempt, kind in runs:
            some = Attempts()
            some.add(Standing(attempt, lost=False), Run(first, last))
            settlements.note(kind, some)
        return settlements


class SettledDeliveries:
    """The settlements of deliveries that have ended, by nonce; the newest are remembered."""

    __slots__ = ("_by_nonce",)

    def __init__(self) -> None:
        self._by_nonce: dict[int, tuple[SettledRun, ...] | Settlements] = {}

    def __contains__(self, nonce: int) -> bool:
        return nonce in self._by_nonce

    def remember(self, nonce: int, settled: Settlements) -> None:
        runs = tuple(islice(settled.runs(), FEW + 1))
        self._by_nonce[nonce] = runs if len(runs) <= FEW else settled
        if len(self._by_nonce) > SETTLED_REMEMBERED:
            del self._by_nonce[next(iter(self._by_nonce))]

    def get(self, nonce: int) -> Settlements | None:
        found = self._by_nonce.get(nonce)
        return Settlements.from_runs(found) if isinstance(found, tuple) else found

    def items(self) -> Iterator[tuple[int, Settlements]]:
        return ((nonce, settled) for nonce in self._by_nonce if (settled := self.get(nonce)) is not None)


class Action(IntEnum):
    ACK = 0
    NACK = 1
    """`delay_ms` replaces the backoff."""
    REJECT = 2
    RELEASE = 3
    EXTEND = 4
    """`delay_ms` is how long the lease lasts from now. Without runs: all of the delivery that is not settled."""
    BEGIN = 5
    """The handlers of these messages begin now. No settlement: it says that the delivery counts."""


class SettleRequest(Protocol):
    """A consumer settles messages of a delivery, or extends their lease."""

    @property
    def nonce(self) -> int: ...
    @property
    def action(self) -> Action: ...
    @property
    def runs(self) -> AttemptRuns: ...
    @property
    def delay(self) -> float | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def to(self) -> Destination | None:
        """Where a redrive sends the messages that it rejects."""

    @property
    def whole(self) -> int:
        """An ack of a whole delivery that had this number of messages, without naming them; 0: they are named."""


# The rules for what a consumer asks. What breaks them would never reach a ledger unharmed (G14).


def check_lease(name: str, milliseconds: int) -> None:
    if not 1 <= milliseconds <= LEASE_MS_MAX:
        raise ProtocolError(f"{name} is {milliseconds}; a lease lasts 1 to {LEASE_MS_MAX}")


def check_settlement(action: Action, delay_ms: int | None, *, is_whole: bool, is_named: bool) -> None:
    """`is_whole`: it is for all messages of a delivery; `is_named`: it names messages."""
    if action is Action.EXTEND:
        check_lease("delay_ms", delay_ms or 0)
    elif delay_ms is not None and delay_ms > DELAY_MS_MAX:
        raise ProtocolError(f"delay_ms is {delay_ms}; a retry waits {DELAY_MS_MAX} at most")
    if is_whole and (is_named or action is not Action.ACK):
        raise ProtocolError("whole is for acks that have no runs; name the messages by runs, or leave it out")


Chunk: TypeAlias = tuple[int, bytes]
"""The number of a chunk of offsets, and a bit for each; no bytes at all stand for all of them."""


def named_messages(runs: Iterable[Sequence[int]], sets: Sequence[tuple[int, Sequence[Chunk]]]) -> AttemptRuns:
    """The messages that a consumer names, in order, each once. Sets are chunks of one attempt."""
    named = tuple(map(AttemptRun._make, runs))
    if sets or len(named) > 1:
        named = tuple(sorted((*named, *_scattered(sets))))
    end = -1
    for run in named:
        if run.first <= end or run.last < run.first:
            raise ProtocolError(f"runs do not overlap and do not end before they begin, as {tuple(run)} does")
        end = run.last
    return named


def _scattered(sets: Sequence[tuple[int, Sequence[Chunk]]]) -> AttemptRuns:
    """A few bytes may name millions: more than any delivery has is refused before it is unpacked."""
    count = 0
    for number, mask in (chunk for _, chunks in sets for chunk in chunks):
        if len(mask) > CHUNK_SIZE // 8 or number > OFFSET_MAX >> CHUNK_BITS:
            raise ProtocolError(f"chunk {number} is not one of {CHUNK_SIZE} offsets, a bit for each")
        count += int.from_bytes(mask, "little").bit_count() if mask else CHUNK_SIZE
    if count > MESSAGES_MAX:
        raise ProtocolError(f"a delivery has {MESSAGES_MAX} messages at most; name those that it has")
    return AttemptSets((attempt, OffsetSet.from_chunks(chunks)) for attempt, chunks in sets).runs()


# Which requests may be decided before the first of them is applied, so that one write journals them all. A decision
# looks at the messages that it names, and at nothing else. So requests for different messages are decided against
# the same state, written together, and applied in order: that gives what one after the other would give. A begin
# changes nothing that a later request looks at, so it may come before one for the same message, but not behind it.


def decided_together(items: Sequence[ItemT], asked: Callable[[ItemT], SettleRequest]) -> Iterator[Sequence[ItemT]]:
    """These items in order, in portions that may each be decided as a whole."""
    if len(items) == 1:
        yield items
        return
    portion, named = list[ItemT](), NamedMessages()
    for item in items:
        request = asked(item)
        if not named.has_room_for(request):
            yield portion
            portion, named = [], NamedMessages()
        named.add(request)
        portion.append(item)
    if portion:
        yield portion


class NamedMessages:
    """The messages of the requests in one portion."""

    __slots__ = ("_run_count", "_settled", "_wholes")

    def __init__(self) -> None:
        self._settled: dict[int, OffsetSet] = {}
        """By delivery, the messages that are settled or get another lease."""
        self._wholes: set[int] = set()
        """The deliveries of which all messages do, or perhaps."""
        self._run_count = 0

    def has_room_for(self, asked: SettleRequest) -> bool:
        """Whether it may be decided before the others are applied. The first one may."""
        nonce, runs = asked.nonce, asked.runs
        is_full = bool(self._run_count) and self._run_count + len(runs) > RUNS_TOGETHER_MAX
        if is_full or nonce in self._wholes:
            return False
        settled = self._settled.get(nonce)
        if settled is None:
            return True
        return _names_few(runs) and not settled.has_any(runs)

    def add(self, asked: SettleRequest) -> None:
        nonce, runs = asked.nonce, asked.runs
        self._run_count += len(runs)
        if asked.action is Action.BEGIN:
            return
        settled = self._settled.setdefault(nonce, OffsetSet())
        if not _names_few(runs):
            self._wholes.add(nonce)
            return
        for run in runs:
            settled.add(run.first, run.last)


def _names_few(runs: AttemptRuns) -> bool:
    """Whether the messages are named, and no more than a delivery has: forged runs may name 2 ** 60."""
    if len(runs) == 1:  # as with one message at a time
        return runs[0].first <= runs[0].last < runs[0].first + MESSAGES_MAX
    return bool(runs) and count(runs) <= MESSAGES_MAX and all(run.first <= run.last for run in runs)
