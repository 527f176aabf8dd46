"""The timer wheel: which delayed messages may be due, for all partitions of a broker at once (SPEC §7).

A timer is an owner, which stands for a partition, an offset and a due time. It only hints: the partition knows
which of its messages are pending, and when each is due. So no timer is removed or moved by itself. That of a
message that was cancelled or moved stays and fires for nothing, and timers go with their owner.

Time runs in ticks of 10 ms. Level 0 has a bucket for each of 256 ticks, level 1 for each of 64 times 256 ticks, and
so on: 2.56 s, 163.84 s, 10,485.76 s. Timers that are due later wait in six more levels of the same kind, so there
is no cap.

A timer lies in the lowest level whose span, aligned to multiples of itself, holds both its tick and the wheel's.
So everything in a level is due before everything in the level above, the next occupied bucket is found by a look at
nine bitmaps however far away it is, and a jump of years costs the timers that it meets. When the wheel comes to the
first tick of a bucket, the bucket is opened: its timers move to lower levels, those of this very tick to the heap
of ready ones. Timers that are added with a due time of this tick or an earlier one go there too. The heap alone
decides what fires, by the exact due time: never early, and in order.

There is no object per timer. A timer is a slot in five columns (28 bytes), and buckets are rings through the slots;
the first slots are the rings' heads. The timers of an owner that was forgotten are skipped when they are ready. If
they are many, all slots are swept.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import compress, islice
from operator import le

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
_FORGOTTEN_MAX = 10_000
"""Limit of the timers of forgotten owners beyond those of all others; with more, all slots are swept."""
_LINKED_AT_ONCE = 16_384
"""The number of timers to sort and link at a time: such a sort stays within a processor's cache, and a million
timers in such steps take half the time of one sort."""
_NOBODY = 0
"""The owner of a free slot."""
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
        self._counts: dict[int, int] = {}
        """The number of timers of each owner."""
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
        self._forgotten = 0
        """The number of timers whose owners were forgotten since the last sweep began."""
        self._swept = _BUCKETS
        """The slot at which the sweep goes on."""

    def __len__(self) -> int:
        return self._size

    def count(self, owner: int) -> int:
        return self._counts.get(owner, 0)

    # Adding and forgetting.

    def add(self, owner: int, offset: Offset, due: Microseconds) -> None:
        assert _NOBODY < owner <= OWNER_MAX, f"{owner} cannot name an owner"
        assert 0 <= due <= DUE_MAX, f"{due} is no due time"
        self._count(owner, 1)
        self._put(owner, offset, due)

    def load(self, owner: int, offsets: "array[int]", dues: "array[int]") -> None:
        """Add many timers; quick in order of due time.

        They take new consecutive slots, and rings are linked by whole columns, some thousands at a time. A caller
        that must not hold others up gives a few thousand in each call.
        """
        assert _NOBODY < owner <= OWNER_MAX, f"{owner} cannot name an owner"
        assert len(offsets) == len(dues), "timers are loaded without a due time"
        if dues:
            self._count(owner, len(dues))
            offsets, dues = self._without_ready(owner, offsets, dues)
            first = len(self._dues)
            self._dues += dues
            self._offsets += offsets
            self._owners += array("I", [owner]) * len(dues)
            for begin in range(0, len(dues), _LINKED_AT_ONCE):
                self._load_rings(self._link(first + begin, dues[begin : begin + _LINKED_AT_ONCE]))

    def _without_ready(
        self, owner: int, offsets: "array[int]", dues: "array[int]"
    ) -> tuple["array[int]", "array[int]"]:
        """The timers that belong into rings; the others go to the heap."""
        end = (self._tick + 1) * TICK
        if min(dues) >= end:
            return offsets, dues
        ready = [_key(due, owner, offset) for offset, due in zip(offsets, dues, strict=True) if due < end]
        for key in sorted(ready):  # so a key mostly stays where it is pushed
            heappush(self._ready, key)
        is_later = [due >= end for due in dues]
        return array("Q", compress(offsets, is_later)), array("Q", compress(dues, is_later))

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
        due_of, begin = self._dues.__getitem__, 0
        while begin < len(slots):
            bucket, end_tick = self._bucket_of(due_of(slots[begin]) // TICK)
            end = bisect_left(slots, end_tick * TICK, begin, key=due_of)
            self._append_ring(bucket, slots[begin], slots[end - 1])
            begin = end

    def forget(self, owner: int) -> None:
        """Its timers count no more, and never fire. Its number is never used again."""
        count = self._counts.pop(owner, 0)
        self._size -= count
        self._forgotten += count
        if not self._size:
            self._clear()

    @property
    def wants_sweep(self) -> bool:
        return self._swept > _BUCKETS or self._forgotten > self._size + _FORGOTTEN_MAX

    def sweep(self, slots_max: int) -> None:
        """Free the slots of forgotten owners among the next `slots_max`."""
        if self._swept == _BUCKETS:
            self._forgotten = 0
        end = min(self._swept + slots_max, len(self._dues))
        for slot in range(self._swept, end):
            if self._owners[slot] != _NOBODY and self._owners[slot] not in self._counts:
                self._unlink(slot)
                self._give_slot(slot)
        self._swept = _BUCKETS if end == len(self._dues) else end

    def _count(self, owner: int, change: int) -> None:
        self._counts[owner] = self._counts.get(owner, 0) + change
        self._size += change
        if not self._counts[owner]:
            del self._counts[owner]

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
        opens a bucket, or when the timer's owner was forgotten."""
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
        """Take up to `work_max` due keys from the heap; returns how many. With the last of many timers all memory
        is freed."""
        ready, end, looked_at = self._ready, (self._now + 1) << _DUE_SHIFT, 0
        while ready and ready[0] < end and looked_at < work_max:
            key = heappop(ready)
            looked_at += 1
            owner = key >> _OWNER_SHIFT & OWNER_MAX
            if owner in self._counts:
                fired.append((owner, key & _OFFSET_MASK, key >> _DUE_SHIFT))
                self._count(owner, -1)
        if not self._size and len(self._dues) >= _KEPT_MAX:
            self._clear()
        return looked_at

    # Rings: each bucket's slots in a circle with its head.

    def _put(self, owner: int, offset: Offset, due: Microseconds) -> None:
        if due // TICK <= self._tick:
            heappush(self._ready, _key(due, owner, offset))
        else:
            slot = self._take_slot(owner, offset, due)
            self._place_chain(slot, slot, due)

    def _place_chain(self, first: int, last: int, due: Microseconds) -> None:
        """Place a chain of slots, all with this due time; those that are ready leave their slots."""
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
            following = self._after[slot]
            heappush(self._ready, _key(due, self._owners[slot], self._offsets[slot]))
            self._give_slot(slot)
            if slot == last:
                return
            slot = following

    def _unlink(self, slot: int) -> None:
        before, after = self._before[slot], self._after[slot]
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

    # Slots.

    def _take_slot(self, owner: int, offset: Offset, due: Microseconds) -> int:
        slot = self._free
        if not slot:
            self._dues.append(due)
            self._offsets.append(offset)
            self._owners.append(owner)
            self._after.append(0)
            self._before.append(0)
            return len(self._dues) - 1
        self._free = self._after[slot]
        self._owners[slot], self._offsets[slot], self._dues[slot] = owner, offset, due
        return slot

    def _give_slot(self, slot: int) -> None:
        self._owners[slot] = _NOBODY
        self._after[slot], self._free = self._free, slot

    def _place_ready_anew(self) -> None:
        end = (self._tick + 1) * TICK << _DUE_SHIFT
        later = [key for key in self._ready if key >= end]
        self._ready = [key for key in self._ready if key < end]
        heapify(self._ready)
        for key in later:
            self._put(key >> _OWNER_SHIFT & OWNER_MAX, key & _OFFSET_MASK, key >> _DUE_SHIFT)


def _key(due: Microseconds, owner: int, offset: Offset) -> int:
    """Orders timers: the one that fires first has the lower key."""
    return due << _DUE_SHIFT | owner << _OWNER_SHIFT | offset


def _exhaust(calls: Iterable[object]) -> None:
    """Make these calls at the speed of C."""
    deque(calls, maxlen=0)
