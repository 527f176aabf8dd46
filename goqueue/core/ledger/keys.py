"""Which messages a group that keeps the order of keys may deliver: the first unsettled one of each key.

A message is settled when it was acked, or is on its way to the dead-letter topic. Until then the next one of its
key waits, whatever happens to it meanwhile: in flight, waiting for its retry, ready again. Messages without a key
do not wait. A key is known by its hash: two keys that share one wait for each other, which breaks nothing.

All this follows from the log and the ledger, and is never written down: after a restart, and when a group begins to
keep the order of keys, the keys of unsettled messages are read again before anything is delivered.

Fresh messages are looked at in the order of the log, and those that wait for their keys are held back: the journal
says that they were delivered, and released at once. So they are ready for a redelivery, on their first attempt, and
nothing else has to know of them.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import NamedTuple, TypeAlias

from goqueue.core.ledger.attempts import FRESH_ATTEMPT, AttemptRun, Standing
from goqueue.core.ledger.entries import (
    Acked,
    CutBack,
    Damaged,
    Entry,
    Expired,
    Nacked,
    PassedOver,
    Rejected,
    Released,
    Removed,
    Reset,
)
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.receipts import OFFSET_MAX
from goqueue.types import Offset

Keyed = tuple[Offset, int]
"""The offset of a message with a key, and the hash of the key."""
StandingSet: TypeAlias = tuple[Standing, OffsetSet]

LOOK_AHEAD_MAX = 10_000
"""Limit of the messages that are ready or wait for their keys; at the limit no fresh messages are looked at."""
LOOK_MIN = 500
"""Minimum number of messages for one look: among fewer there may be none that can be delivered."""


def how_far_to_look(wanted: int, ready: int) -> int:
    return max(0, min(max(wanted, LOOK_MIN), LOOK_AHEAD_MAX - ready)) if wanted else 0


class Looked(NamedTuple):
    keys: dict[Offset, int]
    begun: dict[int, Offset]
    """Keys that were unknown, and the first message of each."""
    behind: list[Keyed]
    """Messages that wait for an earlier one of their key."""
    held: list[Offset]
    """These, and the messages beyond `give_max`."""

    @property
    def held_set(self) -> OffsetSet:
        return OffsetSet.of(self.held)


class LedgerKeys:
    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """The keys of unsettled messages are unknown. So are they for a group that keeps no order."""
        self.are_known = False
        self._keys: dict[Offset, int] = {}
        self._firsts: dict[int, Offset] = {}
        """The first unsettled message of each key."""
        self._queues: dict[int, deque[Offset]] = {}
        """The messages behind it, in order; most keys have none."""
        self.waiting = OffsetSet()
        """All messages in these queues."""

    def learn(self, unsettled: Iterable[Run], keyed: Iterable[Keyed]) -> None:
        self.forget()
        self.are_known, standing = True, OffsetSet(unsettled)
        known = sorted(each for each in keyed if each[0] in standing)
        self.note(self.look([Run(offset, offset) for offset, _ in known], known, 0))

    # Fresh messages

    def look(self, fresh: Iterable[Run], keyed: dict[Offset, int] | Iterable[Keyed], give_max: int) -> Looked:
        """Look at messages behind all known ones. Those beyond `give_max` are held, too."""
        keys = keyed if isinstance(keyed, dict) else dict(keyed)
        queues = [range(first, last + 1) for first, last in fresh]
        if len(keys) == sum(map(len, queues)):
            return self._look_at_keyed(keys, give_max)
        return self._look_at_each(list(chain.from_iterable(queues)), keys, give_max)

    def _look_at_keyed(self, keys: dict[Offset, int], give_max: int) -> Looked:
        """All messages have keys and are in order: the same in fewer steps."""
        offsets, hashes = list(keys), list(keys.values())
        begun = dict(
            zip(reversed(hashes), reversed(offsets), strict=True)
        )  # the first of each comes last, and stays
        for key in begun.keys() & self._firsts.keys():
            del begun[key]
        behind = [(offset, key) for offset, key in keys.items() if begun.get(key) != offset]
        held = [offset for offset, _ in behind]
        if len(begun) > give_max:
            held = sorted([*held, *sorted(begun.values())[max(0, give_max) :]])
        return Looked(keys, begun, behind, held)

    def _look_at_each(self, offsets: Sequence[Offset], keys: dict[Offset, int], give_max: int) -> Looked:
        firsts, looked = self._firsts, Looked(keys, {}, [], [])
        begun, hold = looked.begun, looked.held.append
        for offset, key in zip(offsets, map(keys.get, offsets), strict=True):
            if key is not None:
                if key in firsts or key in begun:
                    looked.behind.append((offset, key))
                    hold(offset)
                    continue
                begun[key] = offset
            if give_max > 0:
                give_max -= 1
            else:
                hold(offset)
        return looked

    def note(self, looked: Looked) -> None:
        """The messages of a look are unsettled, and that is journaled."""
        if not self.are_known:
            return
        self._keys.update(looked.keys)
        self._firsts.update(looked.begun)
        for offset, key in looked.behind:
            self._queues.setdefault(key, deque()).append(offset)
        if looked.behind:
            self.waiting.update(OffsetSet.of([offset for offset, _ in looked.behind]))

    # Messages that wait

    def those_that_may_leave(self, sets: Sequence[StandingSet]) -> Sequence[StandingSet]:
        if not self.waiting:
            return sets
        return [(standing, offsets.without(self.waiting)) for standing, offsets in sets]

    def count_waiting(self, sets: Sequence[StandingSet]) -> int:
        """How many of these wait for an earlier message of their key."""
        return sum(len(offsets.common(self.waiting)) for _, offsets in sets)

    def longest_backlog(self) -> tuple[Offset, int] | None:
        if not self._queues:
            return None
        key = max(self._queues, key=lambda key: len(self._queues[key]))
        return self._firsts[key], len(self._queues[key])

    # Settled

    def note_entry(self, entry: Entry) -> None:
        self.settle(chain.from_iterable(self._known(run.first, run.last) for run in _settled_by(entry)))

    def settle(self, offsets: Iterable[Offset]) -> None:
        """These are settled; unknown ones are ignored."""
        queues, firsts, free, offsets = self._queues, self._firsts, list[Offset](), list(offsets)
        for offset, key in zip(offsets, list(map(self._keys.pop, offsets, repeat(None))), strict=True):
            if key in queues:
                free.append(self._take_out(key, offset))
            elif key is not None:
                del firsts[key]
        if free:
            self.waiting.take(OffsetSet.of(free))

    def _known(self, first: Offset, last: Offset) -> Iterable[Offset]:
        """The offsets of a range that may be known. A long range costs no more than all known ones."""
        if last - first < len(self._keys):
            return range(first, last + 1)
        return [offset for offset in self._keys if first <= offset <= last]

    def _take_out(self, key: int, offset: Offset) -> Offset:
        """Remove a settled message from its key; returns the one that waits no more: this one, or the next."""
        queue = self._queues[key]
        if self._firsts[key] != offset:
            queue.remove(offset)
        else:
            self._firsts[key] = offset = queue.popleft()
        if not queue:
            del self._queues[key]
        return offset


def hold_back(nonce: int, looked: Iterable[Looked]) -> Released | None:
    """Release the fresh messages that are not delivered yet. It is journaled together with the delivery."""
    runs = [AttemptRun(first, last, FRESH_ATTEMPT) for each in looked for first, last in each.held_set.runs()]
    return Released(nonce, tuple(sorted(runs))) if runs else None


def _settled_by(entry: Entry) -> Iterable[Run | AttemptRun]:
    """Messages that hold back no others of their key any more."""
    match entry:
        case Acked():
            return entry.runs or ()
        case Rejected() | PassedOver():
            return entry.runs
        case Damaged():  # the keys of a damaged range are unknown, so it holds no others back
            return entry.offsets.runs()
        case Nacked():
            return entry.leaving
        case Expired():
            return () if entry.reason is None else entry.runs
        case Removed():
            return (Run(0, entry.offset - 1),)
        case CutBack():
            return (Run(entry.end, OFFSET_MAX),)
        case Reset():
            return (Run(0, OFFSET_MAX),)
    return ()
