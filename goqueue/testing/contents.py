"""The bytes of one simulated file, kept twice.

The view is what every read sees: the page cache. The durable image is what the platter holds. Between them is the
list of operations that were done and not yet synced, in order. A sync performs those before its mark on the image,
a failed sync removes them from the list without performing them, and a power loss draws the fate of each
(`powerloss`). Operations are frozen: a copied disk shares them.

Marks count the operations ever begun on the file, so that a sync knows what came before it although others
finish while it waits.
"""

from dataclasses import dataclass, field, replace
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Write:
    position: int
    data: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    def perform(self, image: bytearray) -> None:
        lengthen(image, self.position)
        image[self.position : self.end] = self.data


@dataclass(frozen=True, slots=True)
class Truncate:
    size: int

    def perform(self, image: bytearray) -> None:
        del image[self.size :]
        lengthen(image, self.size)


Operation: TypeAlias = Write | Truncate


def lengthen(image: bytearray, size: int) -> None:
    """The bytes between the old end and the new read as zeros."""
    if size > len(image):
        image.extend(bytes(size - len(image)))


@dataclass(eq=False, slots=True)
class FileContents:
    view: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Operation] = field(default_factory=list)
    failed_syncs: int = 0
    linked: bool = True
    handles: int = 0
    locked: bool = False
    _begun: int = 0

    def __deepcopy__(self, memo: dict[int, object]) -> "FileContents":
        """The file as another process finds it: the same bytes; no handles, no locks."""
        copied = FileContents(bytearray(self.view), bytearray(self.durable), list(self.unsynced))
        copied.linked = self.linked
        return copied

    def perform(self, operation: Operation) -> None:
        operation.perform(self.view)
        self.unsynced.append(operation)
        self._begun += 1

    def read(self, position: int, length: int) -> bytes:
        return bytes(memoryview(self.view)[position : position + length])

    def mark(self) -> int:
        return self._begun

    def settle(self, mark: int) -> None:
        """Everything begun before the mark reached the platter."""
        for operation in self._take(mark):
            operation.perform(self.durable)

    def forget(self, mark: int) -> None:
        """A sync failed: the kernel calls these pages clean, and no later sync writes them."""
        self._take(mark)
        self.failed_syncs += 1

    def show_durable(self) -> None:
        """After a power loss: only the durable image is left."""
        self.view = bytearray(self.durable)
        self.unsynced.clear()
        self.linked = True

    def flip_bit(self, position: int, bit: int) -> None:
        """Damage the byte in both images, so that neither a sync nor a crash heals it."""
        for image in (self.view, self.durable):
            if position < len(image):
                image[position] ^= 1 << bit
        self.unsynced = [_flipped(operation, position, bit) for operation in self.unsynced]

    def cut(self, size: int) -> None:
        """Shorten the file in both images, so that neither a sync nor a crash brings the rest back."""
        del self.view[size:]
        del self.durable[size:]
        self.unsynced = [_cut(operation, size) for operation in self.unsynced]

    def _take(self, mark: int) -> list[Operation]:
        count = max(0, len(self.unsynced) - (self._begun - mark))
        taken = self.unsynced[:count]
        del self.unsynced[:count]
        return taken


def _flipped(operation: Operation, position: int, bit: int) -> Operation:
    if isinstance(operation, Truncate) or not operation.position <= position < operation.end:
        return operation
    data = bytearray(operation.data)
    data[position - operation.position] ^= 1 << bit
    return replace(operation, data=bytes(data))


def _cut(operation: Operation, size: int) -> Operation:
    if isinstance(operation, Truncate):
        return Truncate(min(operation.size, size))
    start = min(operation.position, size)
    return Write(start, operation.data[: size - start])
