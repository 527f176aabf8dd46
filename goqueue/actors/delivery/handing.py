"""Makes a delivery of the messages gathered for a member: decided by the ledger, journaled, then answered."""

from collections.abc import Sequence
from random import Random

import trio

from goqueue.actors.delivery.gathering import Gathered
from goqueue.actors.delivery.lanes import GatheredLanes
from goqueue.actors.delivery.ledgers import GroupHere, Ledgers
from goqueue.actors.delivery.requests import Take, Taken
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.statistics.groups import GroupCounts
from goqueue.core.ledger.entries import Entry
from goqueue.core.ledger.handout import HandOut, Recipient
from goqueue.core.ledger.views import Plan
from goqueue.core.receipts import NONCE_BITS
from goqueue.core.slices.batchindex import BatchIndexes
from goqueue.environment import WallClock


class HandingOut:
    """A message uses an attempt when its delivery is journaled, so every such delivery must be answered.

    `hand_out` decides first: that builds the whole answer, and may fail. Then it journals and answers. Notes and
    statistics come last.
    """

    def __init__(
        self, ledgers: Ledgers, clock: WallClock, random: Random, indexes: BatchIndexes, counts: GroupCounts
    ) -> None:
        self._ledgers = ledgers
        self._counts = counts
        self._clock = clock
        self._random = random
        self._indexes = indexes

    def hand_out(
        self, here: GroupHere, message: Take, plan: Plan, gathered: Gathered | GatheredLanes, reply: Reply[Taken]
    ) -> None:
        """Settle the reply with a delivery. An unsettled reply means: plan again, something was skipped."""
        now, ledger = trio.current_time(), here.ledger
        nonce = self._random.getrandbits(NONCE_BITS)
        to = Recipient(self._clock.now(), message.member, nonce, message.visibility)
        keyed_by = self._indexes if ledger.settings.key_order else None
        decided = ledger.hand_out(now, to, plan, gathered.scanned(keyed_by))
        taken = self._answer(gathered, decided) if decided.gives else None
        self._journal_and_answer(here, decided.entries, now, taken, reply)
        ledger.handed_out(now, decided)
        if decided.counts is not None:
            self._counts.note_served(decided.counts)
            here.last_delivery = (message.member, now)

    def _answer(self, gathered: Gathered | GatheredLanes, decided: HandOut) -> Taken:
        plan, data = decided.plan, gathered.data_of(decided, self._indexes)
        return Taken(decided.nonce, decided.runs, data, plan.is_alone, plan.alone_waiting, decided.sets)

    def _journal_and_answer(
        self, here: GroupHere, entries: Sequence[Entry], now: float, taken: Taken | None, reply: Reply[Taken]
    ) -> None:
        """Nothing that may fail comes between the two."""
        if entries:
            self._ledgers.write(here, entries, now)
        if taken is not None:
            reply.resolve(taken)


def nothing(plan: Plan) -> Taken:
    return Taken(0, (), b"", False, plan.alone_waiting)
