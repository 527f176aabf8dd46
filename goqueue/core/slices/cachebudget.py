"""The memory for what is kept from the logs, on a whole node.

Each cache of a partition has a bound of its own: the entries that were used longest ago go. `CacheBudget` bounds
all caches of a node together: over it, the cache that was used longest ago is emptied. A partition that closes
gives its share back.
"""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

CACHE_BYTES_MAX = 32 * 1024 * 1024

Key = TypeVar("Key")
Entry = TypeVar("Entry")


class Cache(Protocol):
    def forget_all(self) -> None:
        """Empty the cache, without a note to the budget: it knows."""


class CacheBudget:
    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._bytes_of: dict[Cache, int] = {}
        """In the order of their last use."""
        self.bytes_kept = 0

    def note(self, cache: Cache, size: int) -> None:
        """This cache was just used, and keeps `size` bytes now."""
        self.bytes_kept += size - self._bytes_of.pop(cache, 0)
        if size:
            self._bytes_of[cache] = size
        while self.bytes_kept > self.bytes_max:
            oldest = next(iter(self._bytes_of))
            self.bytes_kept -= self._bytes_of.pop(oldest)
            oldest.forget_all()


class CacheEntries(Generic[Key, Entry]):
    """The entries of one cache, in the order of their last use."""

    def __init__(self, budget: CacheBudget, bytes_max: int, count_min: int = 0) -> None:
        """`count_min` entries stay, however large they are, while the budget has room for them."""
        self._budget = budget
        self._bytes_max = bytes_max
        self._count_min = count_min
        self._entries: dict[Key, tuple[Entry, int]] = {}
        self.bytes_kept = 0
        self.past_changes = 0
        """The number of changes in what readers could see of the log, when the entries were read."""

    def __iter__(self) -> Iterator[Entry]:
        return (entry for entry, _ in self._entries.values())

    def use(self, key: Key) -> Entry | None:
        kept = self._entries.pop(key, None)
        if kept is None:
            return None
        self._entries[key] = kept
        self._budget.note(self, self.bytes_kept)
        return kept[0]

    def keep(self, key: Key, entry: Entry, size: int) -> None:
        """Keep this entry, of `size` bytes, in place of any other with this key."""
        self._remove(key)
        self._entries[key] = entry, size
        self.bytes_kept += size
        while self.bytes_kept > self._bytes_max and len(self._entries) > self._count_min:
            self._remove(next(iter(self._entries)))
        self._budget.note(self, self.bytes_kept)

    def drop(self, key: Key) -> bool:
        """Whether it was there."""
        is_there = key in self._entries
        self._remove(key)
        self._budget.note(self, self.bytes_kept)
        return is_there

    def follow(self, past_changes: int) -> None:
        """Forget everything if the log has changed since it was read."""
        if past_changes != self.past_changes:
            self.past_changes = past_changes
            self.close()

    def close(self) -> None:
        """Forget everything, and give the share of the budget back."""
        self.forget_all()
        self._budget.note(self, 0)

    def forget_all(self) -> None:
        self._entries.clear()
        self.bytes_kept = 0

    def _remove(self, key: Key) -> None:
        self.bytes_kept -= self._entries.pop(key, _NOTHING)[1]


_NOTHING = (None, 0)
