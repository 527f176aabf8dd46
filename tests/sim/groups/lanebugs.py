"""Bugs planted in the lanes of groups: those that others made. A world of groups must find each."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from goqueue.actors.delivery.lanes import GatheredLanes
from goqueue.actors.delivery.ledgers import Ledgers
from goqueue.core.ledger import entries
from goqueue.core.ledger.firstdeliveries import FirstDeliveries
from goqueue.core.ledger.state import LedgerState
from goqueue.core.offsetset import OffsetSet
from goqueue.types import Buffer
from tests.sim.clients.world import ClientWorld
from tests.sim.disk.bugs import replaced
from tests.sim.groups.bugs import Buggy


class HasOneCursorForAllLanes(Buggy):
    """Where the highest lane is, the others are taken to be."""

    def bug(self) -> AbstractContextManager[None]:
        before = LedgerState._lanes_delivered

        def delivered(self: LedgerState, entry: entries.LanesDelivered, now: float) -> None:
            before(self, entry, now)
            self.lanes._move([max(self.lanes.fresh)] * len(self.lanes.fresh))

        return replaced(LedgerState, "_lanes_delivered", delivered)


class ForgetsLanesAtRestart(Buggy):
    """All lanes go on where the last of them was."""

    def bug(self) -> AbstractContextManager[None]:
        before = Ledgers.open

        async def opened(self: Ledgers) -> None:
            await before(self)
            for here in self.groups.values():
                state = here.ledger._state
                lanes, state.firsts = state.lanes, [FirstDeliveries() for _ in state.firsts]
                lanes.ahead = OffsetSet()
                lanes._move([lanes.next_fresh] * len(lanes.fresh))

        return replaced(Ledgers, "open", opened)


class PutsTheLowestLaneFirst(Buggy):
    """What is handed out stands in the order of importance, upside down."""

    def bug(self) -> AbstractContextManager[None]:
        def data_of(self: GatheredLanes, *_: object) -> Buffer:
            parts: Sequence[Buffer] = [part for each in self.lanes[::-1] for part in (*each.apart, *each.parts)]
            return b"".join(parts)

        return replaced(GatheredLanes, "data_of", data_of)


PLANTED_AMONG_LANES: dict[str, type[ClientWorld]] = {
    "has-one-cursor-for-all-lanes": HasOneCursorForAllLanes,
    "forgets-lanes-at-restart": ForgetsLanesAtRestart,
    "puts-the-lowest-lane-first": PutsTheLowestLaneFirst,
}
