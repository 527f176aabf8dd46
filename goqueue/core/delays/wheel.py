"""The timer wheel: which delayed messages are due, for all partitions of a broker at once (SPEC §7).

A timer has a name, (owner, offset), and a due time; the owner stands for a partition. Time runs in ticks of 10 ms.
Level 0 has a bucket for each of 256 ticks, level 1 for each of 64 times 256 ticks, and so on: 2.56 s, 163.84 s,
10,485.76 s. Timers that are due later wait in six more levels of the same kind, so there is no cap.

A timer lies in the lowest level whose span, aligned to multiples of itself, holds both its tick and the wheel's.
So everything in a level is due before everything in the level above, the next occupied bucket is found by a look at
nine bitmaps however far away it is, and a jump of years costs the timers that it meets. When the wheel comes to the
first tick of a bucket, the bucket is opened: its timers move to lower levels, those of this very tick to the heap
of ready ones. Timers that are added with a due time of this tick or an earlier one go there too. The heap alone
decides what fires, by the exact due time: never early, and in order.

Every step leaves the rings whole: a cancel between two calls can orphan nothing, and what it has unlinked is in no
ring that a cascade could bring back. Only the heap keeps the key of a timer that was cancelled or moved; a key
counts while a timer has that name and that due time.

There is no object per timer. A timer is a slot in five columns (28 bytes), and buckets are rings through the slots;
the first slots are the rings' heads. With the index of names a million pending timers take 34 bytes each.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice, repeat
from operator import le

from goqueue.core.delays.slotindex import NO_SLOT, SlotIndex
from goqueue.types import Microseconds, Offset

TICK: Microseconds = 10_000
DUE_MAX: Microseconds = (1 << 64) - 1
OWNER_MAX = (1 << 32) - 1

_SHIFTS = (0, *range(8, 57, 6))
"""For each level, and one more above the highest: how many bits of a tick lie below it."""
_LEVELS = len(_SHIFTS) - 1
_BASES = (0, *range(256, 256 + 64 * (_LEVELS - 1), 64))
"""For each level the number of its first bucket."""
_MASKS = (255, *[63] * (_LEVELS - 1))
_BUCKETS = 256 + 64 * (_LEVELS - 1)
_LEVEL_OF = bytes(next(level for level in range(_LEVELS) if bits <= _SHIFTS[level + 1]) for bits in range(57))
"""The level of a tick, by the number of bits in which it differs from the wheel's tick."""

_KEPT_MAX = 100_000
"""Limit of the memory that is kept without timers, in slots: beyond it all memory is freed with the last timer."""
_LINKED_AT_ONCE = 16_384
"""The number of timers to sort and link at a time: such a sort stays within a processor's cache, and a million
timers in such steps take half the time of one sort."""
_READY = (1 << 32) - 1
"""Stands in the column `before`: the slot is in no ring, but in the heap."""
_NOTHING = -1

_DUE_SHIFT, _OWNER_SHIFT = 96, 64
_OFFSET_MASK = (1 << _OWNER_SHIFT) - 1

Fired = tuple[int, Offset, Microseconds]
"""Owner, offset, and when it was due."""


class TimerWheel:
    def __init__(self, now: Microseconds) -> None:
        self._now = now
        self._tick = now // TICK
        """Timers due in earlier ticks are fired or in the heap, and so are those due in this tick, but for the
        opened bucket."""
        self._names: dict[int, SlotIndex] = {}
        self._size = 0
        self._clear()

    def _clear(self) -> None:
        self._dues = array("Q", bytes(8 * _BUCKETS))
        self._offsets = array("Q", bytes(8 * _BUCKETS))
        self._owners = array("I", bytes(4 * _BUCKETS))
        self._after = array("I", range(_BUCKETS))
        self._before = array("I", range(_BUCKETS))
        self._occupied = [0] * _LEVELS
        self._opened = _NOTHING
        self._free = 0
        """The free slots are a chain too; a ring's head, which is never free, ends it."""
        self._ready: list[int] = []

    def __len__(self) -> int:
        return self._size

    def count(self, owner: int) -> int:
        names = self._names.get(owner)
        return 0 if names is None else len(names)

    def due_of(self, owner: int, offset: Offset) -> Microseconds | None:
        slot = self._find(owner, offset)
        return None if slot == NO_SLOT else self._dues[slot]

    # Adding and taking away.

    def add(self, owner: int, offset: Offset, due: Microseconds) -> None:
        """Its name must not be pending."""
        assert 0 <= owner <= OWNER_MAX, f"{owner} cannot name an owner"
        _check_due(due)
        names = self._names.get(owner)
        if names is None:
            names = self._names[owner] = SlotIndex(self._offsets)
        assert names.find(offset) == NO_SLOT, f"timer {offset} of {owner} is pending already"
        slot = self._take_slot(owner, offset)
        names.insert(slot)
        self._size += 1
        self._place(slot, due)

    def load(self, owner: int, offsets: "array[int]", dues: "array[int]") -> None:
        """Add many timers, none of them pending; quick in order of due time or of offset, and quickest in both.

        They take new consecutive slots, and rings are linked by whole columns, some thousands at a time. A caller
        that must not hold others up gives a few thousand in each call, in order of offset.
        """
        assert 0 <= owner <= OWNER_MAX, f"{owner} cannot name an owner"
        assert len(offsets) == len(dues), "timers are loaded without a due time"
        if dues:
            first = len(self._dues)
            self._append_columns(owner, offsets, dues)
            self._load_names(owner, first)
            for begin in range(0, len(dues), _LINKED_AT_ONCE):
                self._load_rings(self._link(first + begin, dues[begin : begin + _LINKED_AT_ONCE]))

    def _load_names(self, owner: int, first: int) -> None:
        names = self._names.setdefault(owner, SlotIndex(self._offsets))
        names.load(first, len(self._dues))
        self._size += len(self._dues) - first

    def _link(self, first: int, dues: "array[int]") -> Sequence[int]:
        """Link the slots from `first` on in order of their due times, and return them in that order."""
        after, before, end = self._after, self._before, first + len(dues)
        if all(map(le, dues, islice(dues, 1, None))):
            after += array("I", range(first + 1, end + 1))
            before += array("I", range(first - 1, end - 1))
            return range(first, end)
        after += array("I", bytes(4 * len(dues)))
        before += array("I", bytes(4 * len(dues)))
        slots = sorted(range(first, end), key=self._dues.__getitem__)
        _exhaust(map(after.__setitem__, slots, islice(slots, 1, None)))
        _exhaust(map(before.__setitem__, islice(slots, 1, None), slots))
        return slots

    def _load_rings(self, slots: Sequence[int]) -> None:
        due_of = self._dues.__getitem__
        begin = bisect_left(slots, (self._tick + 1) * TICK, key=due_of)
        self._load_ready(slots[:begin])
        while begin < len(slots):
            bucket, end_tick = self._bucket_of(due_of(slots[begin]) // TICK)
            end = bisect_left(slots, end_tick * TICK, begin, key=due_of)
            self._append_ring(bucket, slots[begin], slots[end - 1])
            begin = end

    def cancel(self, owner: int, offset: Offset) -> Microseconds | None:
        """When it was due; None when it is not pending."""
        slot = self._find(owner, offset)
        if slot == NO_SLOT:
            return None
        due = self._dues[slot]
        self._unlink(slot)
        self._forget_found(owner)
        self._give_slot(slot)
        return due

    def reschedule(self, owner: int, offset: Offset, due: Microseconds) -> bool:
        """False when it is not pending."""
        _check_due(due)
        slot = self._find(owner, offset)
        if slot == NO_SLOT:
            return False
        self._unlink(slot)
        self._place(slot, due)
        return True

    def forget(self, owner: int, count_min: int) -> bool:
        """Drop timers of an owner, at least `count_min` and hardly more; returns whether it still has others."""
        names = self._names.get(owner)
        while names and count_min > 0:
            page = names.pop_page()
            count_min -= len(page)
            if not names:
                del self._names[owner]
            for slot in page:
                self._unlink(slot)
                self._size -= 1
                self._give_slot(slot)
        return bool(names)

    # Time.

    def advance(self, now: Microseconds, work_max: int) -> list[Fired]:
        """The timers that are due at `now`, in order of due time, then owner and offset; each once.

        At most `work_max` timers are looked at, moved or fired; while `is_behind`, call it again.
        """
        self._now = now
        fired: list[Fired] = []
        work = 0
        while work < work_max:
            if self._opened != _NOTHING:
                work += self._empty_opened(work_max - work)
            elif self._is_ready:
                work += self._fire(fired, work_max - work)
            elif not self._go_on():
                break
        return fired

    @property
    def is_behind(self) -> bool:
        """Whether there is more to do for the last `now`."""
        return self._opened != _NOTHING or self._is_ready or self._next_bucket()[0] <= self._now // TICK

    def next_deadline(self) -> Microseconds | None:
        """When to call `advance` next: never later than the first due time. The call may fire nothing, when it only
        opens a bucket, or when the timer was cancelled."""
        tick, bucket = self._next_bucket()
        deadlines = [] if bucket == _NOTHING else [tick * TICK]
        if self._opened != _NOTHING:
            deadlines.append(self._tick * TICK)
        if self._ready:
            deadlines.append(self._ready[0] >> _DUE_SHIFT)
        return min(deadlines, default=None)

    def step_back(self, now: Microseconds) -> None:
        """The wall clock was set back: let the wheel stand at the earlier time. Timers keep their due times.

        This costs a few hundred links and a look at the ready timers, however many are pending. Timers in all
        levels below the one in which the two times differ belong in one bucket of that level; rings are joined at
        their ends. Without it nothing would fire early, but all timers added meanwhile would go to the heap.
        """
        self._now = now
        tick, was = now // TICK, self._tick
        if tick >= was:
            return
        level = _LEVEL_OF[(tick ^ was).bit_length()]
        bucket = _BASES[level] + (was >> _SHIFTS[level] & _MASKS[level])
        for lower in range(level):
            self._join_level(lower, bucket)
        self._tick, self._opened = tick, _NOTHING
        self._place_ready_anew()

    @property
    def _is_ready(self) -> bool:
        return bool(self._ready) and self._ready[0] >> _DUE_SHIFT <= self._now

    def _go_on(self) -> bool:
        """Go to the next occupied bucket and open it; if none begins by now, go to now and return False."""
        tick, bucket = self._next_bucket()
        here = self._now // TICK
        if tick > here:
            self._tick = max(self._tick, here)
            return False
        self._tick, self._opened = tick, bucket
        return True

    def _next_bucket(self) -> tuple[int, int]:
        """The first tick of the next occupied bucket, and its number; if there is none, a tick that never comes."""
        for level, occupied in enumerate(self._occupied):
            if occupied:
                shift, mask = _SHIFTS[level], _MASKS[level]
                here = self._tick >> shift
                later = occupied >> (here & mask) + 1
                if later:
                    there = here + (later & -later).bit_length()
                    return there << shift, _BASES[level] + (there & mask)
        return DUE_MAX, _NOTHING

    def _empty_opened(self, work_max: int) -> int:
        """Move up to `work_max` timers of the opened bucket to where they belong by now; returns how many.
        Neighbours with the same due time, as those of one call, move as one chain: due timers wait until a large
        bucket is emptied."""
        bucket, after, dues = self._opened, self._after, self._dues
        slot, moved = after[bucket], 0
        while slot != bucket and moved < work_max:
            first = last = slot
            due, slot, moved = dues[slot], after[slot], moved + 1
            while dues[slot] == due and slot != bucket and moved < work_max:
                last, slot, moved = slot, after[slot], moved + 1
            self._place_chain(first, last, due)
        after[bucket], self._before[slot] = slot, bucket
        if slot == bucket:
            self._vacate(bucket)
            self._opened = _NOTHING
        return moved

    def _fire(self, fired: list[Fired], work_max: int) -> int:
        """Take up to `work_max` due keys from the heap; returns how many."""
        ready, end, looked_at = self._ready, (self._now + 1) << _DUE_SHIFT, 0
        while ready and ready[0] < end and looked_at < work_max:
            key = heappop(ready)
            looked_at += 1
            slot = self._slot_of(key)
            if slot != NO_SLOT:
                owner, offset = self._owners[slot], self._offsets[slot]
                fired.append((owner, offset, self._dues[slot]))
                self._forget_found(owner)
                self._give_slot(slot)
                ready = self._ready  # with the last timer the heap is another
        return looked_at

    # Rings: each bucket's slots in a circle with its head.

    def _place(self, slot: int, due: Microseconds) -> None:
        self._dues[slot] = due
        self._place_chain(slot, slot, due)

    def _place_chain(self, first: int, last: int, due: Microseconds) -> None:
        """Place a chain of slots, all with this due time."""
        tick, before, after = due // TICK, self._before, self._after
        if tick <= self._tick:
            self._make_ready(first, last, due)
            return
        level = _LEVEL_OF[(tick ^ self._tick).bit_length()]
        place = tick >> _SHIFTS[level] & _MASKS[level]
        bucket = _BASES[level] + place
        before[first] = end = before[bucket]
        after[end], after[last], before[bucket] = first, bucket, last
        self._occupied[level] |= 1 << place

    def _make_ready(self, slot: int, last: int, due: Microseconds) -> None:
        while True:
            self._before[slot] = _READY
            heappush(self._ready, _key(due, self._owners[slot], self._offsets[slot]))
            if slot == last:
                return
            slot = self._after[slot]

    def _unlink(self, slot: int) -> None:
        before, after = self._before[slot], self._after[slot]
        if before == _READY:
            return
        self._after[before], self._before[after] = after, before
        if before == after:  # only the head is left
            self._vacate(before)

    def _vacate(self, bucket: int) -> None:
        level = 0 if bucket < 256 else (bucket - 192) >> 6
        self._occupied[level] &= ~(1 << bucket - _BASES[level])

    def _bucket_of(self, tick: int) -> tuple[int, int]:
        """The bucket of a later tick, and the first tick behind it."""
        level = _LEVEL_OF[(tick ^ self._tick).bit_length()]
        number = tick >> _SHIFTS[level]
        return _BASES[level] + (number & _MASKS[level]), number + 1 << _SHIFTS[level]

    def _append_ring(self, bucket: int, first: int, last: int) -> None:
        """Append a chain of linked slots to a bucket's ring."""
        self._before[first] = end = self._before[bucket]
        self._after[end], self._after[last], self._before[bucket] = first, bucket, last
        level = 0 if bucket < 256 else (bucket - 192) >> 6
        self._occupied[level] |= 1 << bucket - _BASES[level]

    def _join_level(self, level: int, target: int) -> None:
        """Move all timers of a level to one bucket."""
        while occupied := self._occupied[level]:
            bucket = _BASES[level] + occupied.bit_length() - 1
            first, last = self._after[bucket], self._before[bucket]
            self._after[bucket] = self._before[bucket] = bucket
            self._vacate(bucket)
            self._append_ring(target, first, last)

    # Slots and names.

    def _find(self, owner: int, offset: Offset) -> int:
        names = self._names.get(owner)
        return NO_SLOT if names is None else names.find(offset)

    def _forget_found(self, owner: int) -> None:
        """Remove the name that was just found."""
        names = self._names[owner]
        names.remove()
        if not names:
            del self._names[owner]
        self._size -= 1

    def _take_slot(self, owner: int, offset: Offset) -> int:
        slot = self._free
        if not slot:
            return self._append_slot(owner, offset)
        self._free = self._after[slot]
        self._owners[slot], self._offsets[slot] = owner, offset
        return slot

    def _append_slot(self, owner: int, offset: Offset) -> int:
        self._dues.append(0)
        self._offsets.append(offset)
        self._owners.append(owner)
        self._after.append(0)
        self._before.append(0)
        return len(self._dues) - 1

    def _give_slot(self, slot: int) -> None:
        """Free a slot. With the last of many timers all memory is freed."""
        if self._size or len(self._dues) < _KEPT_MAX:
            self._after[slot], self._free = self._free, slot
        else:
            self._clear()

    def _append_columns(self, owner: int, offsets: "array[int]", dues: "array[int]") -> None:
        """All columns but the links."""
        self._dues += dues
        self._offsets += offsets
        self._owners += array("I", [owner]) * len(dues)

    # The heap.

    def _slot_of(self, key: int) -> int:
        """The slot of a key, or `NO_SLOT` when its timer is gone or was moved."""
        slot = self._find(key >> _OWNER_SHIFT & OWNER_MAX, key & _OFFSET_MASK)
        if slot != NO_SLOT and self._dues[slot] == key >> _DUE_SHIFT:
            return slot
        return NO_SLOT

    def _load_ready(self, slots: Sequence[int]) -> None:
        """The slots come in order of due time, so a key mostly stays where it is pushed."""
        dues, offsets, before = self._dues, self._offsets, self._before
        if slots:
            owner = self._owners[slots[0]]
            for slot in slots:
                heappush(self._ready, _key(dues[slot], owner, offsets[slot]))
            _exhaust(map(before.__setitem__, slots, repeat(_READY)))

    def _place_ready_anew(self) -> None:
        end = (self._tick + 1) * TICK << _DUE_SHIFT
        later = [key for key in self._ready if key >= end]
        self._ready = [key for key in self._ready if key < end]
        heapify(self._ready)
        for key in later:
            slot = self._slot_of(key)
            if slot != NO_SLOT:
                self._place(slot, key >> _DUE_SHIFT)


def _key(due: Microseconds, owner: int, offset: Offset) -> int:
    """Orders timers: the one that fires first has the lower key."""
    return due << _DUE_SHIFT | owner << _OWNER_SHIFT | offset


def _check_due(due: Microseconds) -> None:
    assert 0 <= due <= DUE_MAX, f"{due} is no due time"


def _exhaust(calls: Iterable[object]) -> None:
    """Make these calls at the speed of C."""
    deque(calls, maxlen=0)
