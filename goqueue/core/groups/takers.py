"""Which consumer of a member takes messages here, and which of the member's deliveries went to others before it.

A ledger knows members, not consumers. One that closes and keeps the member's place releases what it holds, and that
does not count. What a consumer before it held when it died has to count, or a message that kills its consumers
would come for ever (G7). The group knows who came before whom, except across a restart of the broker.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

MEMBERS_MAX = 1_024
"""Limit of remembered members: the newest. A shared group may have more; leases end what the others held."""


class _Taker(NamedTuple):
    instance: int
    before: frozenset[int]
    """Deliveries to consumers before it, or to itself before the partition was started."""


class Takers:
    __slots__ = ("_takers",)

    def __init__(self) -> None:
        self._takers: dict[str, _Taker] = {}

    def note(self, member: str, instance: int, held: Callable[[str], frozenset[int]]) -> None:
        """A consumer is about to be given messages; `held` says what its member holds already."""
        taker = self._takers.get(member)
        if taker is not None and taker.instance == instance:
            return
        self.forget(member)
        self._takers[member] = _Taker(instance, held(member))
        if len(self._takers) > MEMBERS_MAX:
            del self._takers[next(iter(self._takers))]

    def own(self, member: str, instance: int, held: Collection[int]) -> frozenset[int]:
        """Those of the member's deliveries that are surely this consumer's."""
        taker = self._takers.get(member)
        if taker is None or taker.instance != instance:
            return frozenset()
        return frozenset(held) - taker.before

    def forget(self, member: str) -> None:
        self._takers.pop(member, None)
