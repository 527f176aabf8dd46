"""Which slot belongs to which offset, for one owner of timers: slots sorted by their offsets, instead of a dict.

A dict of a million ints takes over a hundred bytes for each of them, a sorted column of slots four. It is cut into
pages of a thousand, so that an insertion or a removal moves a few kilobytes at most, whatever the total. Offsets
mostly come in rising order, and then an addition is an append to the last page.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import chain, islice
from operator import lt

from goqueue.types import Offset

PAGE_MAX = 1_024
NO_SLOT = -1


class SlotIndex:
    __slots__ = ("_firsts", "_number", "_offsets", "_pages", "_place", "_size")

    def __init__(self, offsets: "array[int]") -> None:
        self._offsets = offsets
        """The offset of every slot, the owner's and others'."""
        self._firsts: list[Offset] = []
        """For each page a lower bound of its offsets, above all offsets of the page before."""
        self._pages: list[array[int]] = []
        self._size = 0
        self._number = self._place = 0
        """The page and the position in it where the last search ended."""

    def __len__(self) -> int:
        return self._size

    def find(self, offset: Offset) -> int:
        """Its slot, or `NO_SLOT`."""
        if not self._pages:
            return NO_SLOT
        offsets, last = self._offsets, self._pages[-1]
        if offset > offsets[last[-1]]:  # as new ones mostly are
            self._number, self._place = len(self._pages) - 1, len(last)
            return NO_SLOT
        if (slot := self._following()) != NO_SLOT and offsets[slot] == offset:
            return slot
        self._number = bisect_right(self._firsts, offset, 1) - 1
        page = self._pages[self._number]
        self._place = place = bisect_left(page, offset, key=offsets.__getitem__)
        return page[place] if place < len(page) and offsets[page[place]] == offset else NO_SLOT

    def _following(self) -> int:
        """The slot where the last search ended: when neighbours are searched one after the other, it is the next
        one."""
        page = self._pages[self._number] if self._number < len(self._pages) else ()
        return page[self._place] if self._place < len(page) else NO_SLOT

    def insert(self, slot: int) -> None:
        """Insert a slot where its offset was just searched for and not found."""
        self._size += 1
        if not self._pages:
            self._append(array("I", [slot]))
            return
        page = self._pages[self._number]
        page.insert(self._place, slot)
        if len(page) > PAGE_MAX:
            self._split(self._number)

    def remove(self) -> None:
        """Remove the slot that was just found."""
        self._size -= 1
        page = self._pages[self._number]
        del page[self._place]
        if not page:
            del self._firsts[self._number], self._pages[self._number]

    def pop_page(self) -> "array[int]":
        """Remove and return the slots of the highest offsets, one page at most."""
        page = self._pages.pop()
        del self._firsts[-1]
        self._size -= len(page)
        return page

    def load(self, first: int, end: int) -> None:
        """Add a range of slots; quick when their offsets rise and lie above all present ones."""
        ordered = _sorted(first, self._offsets[first:end])
        if self._pages and self._offsets[ordered[0]] < self._offsets[self._pages[-1][-1]]:
            ordered = array("I", sorted([*self.slots(), *ordered], key=self._offsets.__getitem__))
            self._firsts, self._pages, self._size = [], [], 0
        for begin in range(0, len(ordered), PAGE_MAX):
            self._append(ordered[begin : begin + PAGE_MAX])
        self._size += len(ordered)

    def slots(self) -> Iterator[int]:
        """All slots, by offset."""
        return chain.from_iterable(self._pages)

    def _append(self, page: "array[int]") -> None:
        self._firsts.append(self._offsets[page[0]])
        self._pages.append(page)

    def _split(self, number: int) -> None:
        """A full last page gives only its newest slot to a new one: if offsets rise, all pages but one stay
        full."""
        page = self._pages[number]
        upper = page[PAGE_MAX if number == len(self._pages) - 1 else PAGE_MAX // 2 :]
        del page[len(page) - len(upper) :]
        self._firsts.insert(number + 1, self._offsets[upper[0]])
        self._pages.insert(number + 1, upper)


def _sorted(first: int, offsets: "array[int]") -> "array[int]":
    """The slots from `first` on, sorted by these offsets.

    A sort by floats takes a third less than one by ints, and no offset is too high for them to be exact.
    """
    if all(map(lt, offsets, islice(offsets, 1, None))):
        return array("I", range(first, first + len(offsets)))
    order = sorted(range(len(offsets)), key=list(map(float, offsets)).__getitem__)
    return array("I", map(first.__add__, order))
