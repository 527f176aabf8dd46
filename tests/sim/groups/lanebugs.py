"""Bugs planted in the lanes of groups: those that others made. A world of groups must find each."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import trio

from goqueue.actors.delivery import delivery, lanes
from goqueue.actors.delivery.lanes import GatheredLanes
from goqueue.actors.delivery.ledgers import Ledgers
from goqueue.core.ledger.entries import Entry, LanesDelivered, PassedOver
from goqueue.core.ledger.ledger import Ledger
from goqueue.storage.log.log import Log
from goqueue.types import Buffer
from tests.sim.clients.world import ClientWorld
from tests.sim.disk.bugs import replaced
from tests.sim.groups.bugs import Buggy, LedgerBug


class HasOneCursorForAllLanes(LedgerBug):
    """Where the highest lane is, the others are taken to be."""

    class ledger_class(Ledger):  # noqa: N801
        def apply(self, entry: Entry, now: float) -> None:
            super().apply(entry, now)
            if isinstance(entry, LanesDelivered):
                super().apply(PassedOver((), max(self.fresh_places), "planted"), now)


class ForgetsLanesAtRestart(Buggy):
    """All lanes go on where the last of them was."""

    def bug(self) -> AbstractContextManager[None]:
        class Forgetful(Ledgers):
            async def open(self, log: Log) -> None:
                await super().open(log)
                for here in self.groups.values():
                    cut = here.ledger.cut_back(here.ledger.next_fresh)
                    self.write(here, [cut] if cut else [], trio.current_time())

        return replaced(delivery, "Ledgers", Forgetful)


class PutsTheLowestLaneFirst(Buggy):
    """What is handed out stands in the order of importance, upside down."""

    def bug(self) -> AbstractContextManager[None]:
        class UpsideDown(GatheredLanes):
            def data_of(self, *_: object) -> Buffer:
                parts: Sequence[Buffer] = [part for each in self.lanes[::-1] for part in (*each.apart, *each.parts)]
                return b"".join(parts)

        return replaced(lanes, "GatheredLanes", UpsideDown)


PLANTED_AMONG_LANES: dict[str, type[ClientWorld]] = {
    "has-one-cursor-for-all-lanes": HasOneCursorForAllLanes,
    "forgets-lanes-at-restart": ForgetsLanesAtRestart,
    "puts-the-lowest-lane-first": PutsTheLowestLaneFirst,
}
