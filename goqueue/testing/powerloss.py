"""A power loss: draws the fate of everything that was not synced.

Each unsynced write is kept, lost or torn, independently of the others; so later writes may survive earlier ones. A
torn write leaves a prefix, or some of its 512-byte sectors while the file has its new length. Bytes that were never
written read as zeros, or as garbage where the file system does not clear its blocks.

With the same odds for each write, a thousand writes would never all survive and never all be lost. So the odds are
drawn for each file first, and the extremes are among them.
"""

from random import Random

from goqueue.testing.contents import FileContents, Truncate, Write
from goqueue.testing.names import NamePlace, Names

SECTOR = 512

KEPT_AND_TORN_ODDS = ((1.0, 0.0), (0.0, 0.0), (0.0, 1.0), (0.5, 0.25), (0.9, 0.05), (0.1, 0.1))
NAME_KEPT_ODDS = (1.0, 0.0, 0.5, 0.9)


class PowerLoss:
    def __init__(self, random: Random, garbage_odds: float) -> None:
        self._random = random
        self._garbage_odds = garbage_odds

    def strike(self, names: Names) -> None:
        """Draw what reaches the platter, and show only that."""
        self._strike_names(names)
        for file in names.files():
            self._strike_contents(file)

    def _strike_names(self, names: Names) -> None:
        kept_odds = self._random.choice(NAME_KEPT_ODDS)
        lost: set[NamePlace] = set()
        for change in names.changes:
            possible = not change.doomed and not any(place in lost for place in change.needs)
            if possible and self._random.random() < kept_odds:
                change.settle()
            else:
                lost.update(change.touches)
        names.show_durable()

    def _strike_contents(self, file: FileContents) -> None:
        kept_odds, torn_odds = self._random.choice(KEPT_AND_TORN_ODDS)
        for operation in file.unsynced:
            drawn = self._random.random()
            if drawn < kept_odds:
                self._keep(file.durable, operation)
            elif drawn < kept_odds + torn_odds and isinstance(operation, Write):
                self._tear(file.durable, operation)
        file.show_durable()

    def _keep(self, image: bytearray, operation: Write | Truncate) -> None:
        if isinstance(operation, Write):
            self._fill(image, operation.position)
        operation.perform(image)

    def _tear(self, image: bytearray, write: Write) -> None:
        if self._random.random() < 0.5:
            length = self._random.randint(0, len(write.data))
            self._keep(image, Write(write.position, write.data[:length]))
        else:
            self._scatter(image, write)

    def _scatter(self, image: bytearray, write: Write) -> None:
        self._fill(image, write.end)
        first = write.position // SECTOR * SECTOR
        for sector in range(first, write.end, SECTOR):
            if self._random.random() < 0.5:
                start, end = max(sector, write.position), min(sector + SECTOR, write.end)
                image[start:end] = write.data[start - write.position : end - write.position]

    def _fill(self, image: bytearray, size: int) -> None:
        """Lengthen the image over blocks that were given to the file and never written."""
        missing = size - len(image)
        if missing > 0:
            garbage = self._random.random() < self._garbage_odds
            image.extend(self._random.randbytes(missing) if garbage else bytes(missing))
