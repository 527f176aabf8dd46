"""The ids of producers.

Ids for clients rise: 2**62, the wall clock in milliseconds from bit 20 on, and a number. A partition can therefore
say "everything up to this id may be forgotten" with one integer, and an id that is given out now lies above it.
After the clock was set back, the next id lies above the highest forgotten one all the same.

The broker's own producers have ids up to 2**47. Ids between the two were drawn at random by earlier versions.
"""

from goqueue.types import Microseconds

BROKER_ID_BITS = 47
BROKER_ID_MAX: int = 2**BROKER_ID_BITS
_RISING = 2**62
NUMBER_BITS = 20
_TIME_BITS = 42
_MILLISECOND: Microseconds = 1_000


def is_of_broker(producer_id: int) -> bool:
    return producer_id <= BROKER_ID_MAX


def issued_at(producer_id: int) -> Microseconds:
    """When this id was given out, 0 when it does not say."""
    return (producer_id - _RISING >> NUMBER_BITS) * _MILLISECOND if producer_id >= _RISING else 0


class ProducerIds:
    """Gives out rising ids."""

    def __init__(self) -> None:
        self._last = 0

    def next(self, now: Microseconds, number: int, forgotten_to: int) -> int:
        """`number`: drawn at random, of `NUMBER_BITS` bits, so that two nodes never give out the same id.
        `forgotten_to`: the highest id that a partition of this node has forgotten."""
        milliseconds = min(max(0, now // _MILLISECOND), 2**_TIME_BITS - 1)
        drawn = _RISING | milliseconds << NUMBER_BITS | number
        self._last = max(drawn, self._last + 1, forgotten_to + 1)
        return self._last
