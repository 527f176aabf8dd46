"""Where the pending messages of a partition lie by their message ids: 16 bytes of memory for each, however many.

Only a hash of an id is kept, and what has ended is forgotten late: an offset that is found may be that of another
message, or of one that is no longer pending. Who asks compares the id with that of the message itself.

The entries are in buckets of some 32. A table that grows splits one bucket at a time (linear hashing), so no single
step takes long.
"""

from array import array
from collections.abc import Callable
from hashlib import blake2b

from goqueue.types import Offset

BUCKET_MAX = 32


class PendingIds:
    def __init__(self) -> None:
        self._buckets = [array("Q")]
        """In each, hash and offset in turn."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def bucket_count(self) -> int:
        return len(self._buckets)

    def add(self, message_id: bytes, offset: Offset) -> None:
        number = _hash_of(message_id)
        self._buckets[self._place(number)].extend((number, offset))
        self._count += 1
        if self._count > BUCKET_MAX * len(self._buckets):
            self._split()

    def find(self, message_id: bytes) -> list[Offset]:
        """The offsets that it may have, in order."""
        number = _hash_of(message_id)
        bucket = self._buckets[self._place(number)]
        found = {bucket[at + 1] for at in range(0, len(bucket), 2) if bucket[at] == number}
        return sorted(found)

    def keep_only(self, bucket: int, is_pending: Callable[[Offset], bool]) -> None:
        """Forget the entries of this bucket that are not pending."""
        before = self._buckets[bucket]
        kept = self._buckets[bucket] = array("Q")
        for at in range(0, len(before), 2):
            if is_pending(before[at + 1]):
                kept.extend(before[at : at + 2])
        self._count -= (len(before) - len(kept)) // 2

    def _place(self, number: int) -> int:
        """By the lowest bits; one bit fewer where the bucket is not split yet."""
        count = len(self._buckets)
        level = 1 << (count.bit_length() - 1)
        place = number & (2 * level - 1)
        return place if place < count else place & (level - 1)

    def _split(self) -> None:
        count = len(self._buckets)
        source = count - (1 << (count.bit_length() - 1))
        before = self._buckets[source]
        self._buckets[source] = array("Q")
        self._buckets.append(array("Q"))
        for at in range(0, len(before), 2):
            self._buckets[self._place(before[at])].extend(before[at : at + 2])


def _hash_of(message_id: bytes) -> int:
    return int.from_bytes(blake2b(message_id, digest_size=8).digest(), "big")
