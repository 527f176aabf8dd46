"""Settlements of a consumer: one frame for many, repeated until it is answered.

Every settlement can be repeated: the broker knows a receipt that it has settled in this way before. So after a lost
answer the same frame is sent again, and after an answer only the deliveries whose partition could not settle now.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import trio

from goqueue.client.consuming.delivery import Portion, ReceivedDelivery
from goqueue.client.consuming.stock import Stock
from goqueue.client.link.caller import Caller
from goqueue.core.ledger.settlements import Action
from goqueue.core.receipts import Receipt
from goqueue.errors import GoQueueError, StaleReceipt
from goqueue.net.wire.failures import error_of, final
from goqueue.net.wire.groups import DeliveryRun, Settle, Settled, SettledDelivery, SettleDelivery
from goqueue.net.wire.messages import Error
from goqueue.types import Offset

PORTIONS_MAX = 1_000
"""Maximum number of portions in one frame."""
RUNS_OF_A_WHOLE = 4
REPEAT_SECONDS_MAX = 30.0
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.05, 2.0

AnswerT = TypeVar("AnswerT")


class Word(NamedTuple):
    """A settlement of messages: action, delay and reason."""

    action: Action
    delay_ms: int | None = None
    reason: str = ""


class SettleOutcome:
    """The outcome of one settlement of many messages: the stale receipts, and the first other error."""

    def __init__(self) -> None:
        self.stale: list[tuple[ReceivedDelivery, list[Offset]]] = []
        self.error: GoQueueError | None = None

    def check(self) -> None:
        if self.error is not None:
            raise self.error
        if self.stale:
            receipts = [str(_receipt(delivery, offset)) for delivery, some in self.stale for offset in some]
            raise StaleReceipt(
                f"{len(receipts)} of the leases had ended, {receipts[0]} among them: others may have them; "
                "settle sooner, extend, or ask for a longer visibility_timeout",
                receipts,
            )


class Settling:
    def __init__(self, client: Caller, group: str, stock: Stock) -> None:
        self._client = client
        self._group = group
        self._stock = stock

    async def say(self, word: Word, portions: Sequence[Portion]) -> SettleOutcome:
        """Settle these. Settled and stale messages are no longer in flight."""
        outcome = SettleOutcome()
        for begin in range(0, len(portions), PORTIONS_MAX):
            await self._say_until_done(word, portions[begin : begin + PORTIONS_MAX], outcome)
        return outcome

    async def _say_until_done(self, word: Word, portions: Sequence[Portion], outcome: SettleOutcome) -> None:
        deadline, pause = trio.current_time() + REPEAT_SECONDS_MAX, PAUSE_SECONDS_MIN
        while True:
            answer = await self._client.call(_frame(self._group, word, portions), Settled)
            is_last = trio.current_time() + pause >= deadline
            again = []
            for portion, settled in zip(portions, answer.deliveries, strict=True):
                if settled.error is not None and settled.error.retryable and not is_last:
                    again.append(portion)
                elif settled.error is not None and _is_whole(word, portion) and _is_stale(settled.error):
                    again.append(portion._replace(is_named=True))
                else:
                    self._note(word, portion, settled, outcome)
            if not again:
                return
            portions = again
            await trio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _note(self, word: Word, portion: Portion, settled: SettledDelivery, outcome: SettleOutcome) -> None:
        if settled.error is not None:
            outcome.error = outcome.error or final(error_of(settled.error))
            return
        stale = list(_offsets_in(portion, settled.stale))
        if stale:
            outcome.stale.append((portion.delivery, stale))
        if word.action is not Action.EXTEND:
            self._stock.settle(portion.delivery, portion.offsets)
        elif stale:
            self._stock.drop_some(portion.delivery, stale)


def _frame(group: str, word: Word, portions: Sequence[Portion]) -> Settle:
    return Settle(group, tuple([_settle_delivery(word, portion) for portion in portions]))


def _settle_delivery(word: Word, portion: Portion) -> SettleDelivery:
    origin = portion.delivery.origin
    is_whole, by_sets = _is_whole(word, portion), portion.delivery.names.are_scattered
    return SettleDelivery(
        origin.uuid,
        origin.partition,
        origin.nonce,
        int(word.action),
        () if is_whole or by_sets else portion.runs,
        word.delay_ms,
        word.reason,
        portion.delivery.names.count if is_whole else 0,
        portion.sets if by_sets and not is_whole else (),
    )


def _is_whole(word: Word, portion: Portion) -> bool:
    """Worth it only with many runs, as with several lanes, and in the order of keys."""
    is_ack, names = word.action is Action.ACK and not portion.is_named, portion.delivery.names
    is_worth_it = names.are_scattered or len(names.runs) >= RUNS_OF_A_WHOLE
    return is_ack and portion.messages is None and is_worth_it


def _is_stale(error: Error) -> bool:
    return error.code == StaleReceipt.code


def _offsets_in(portion: Portion, runs: Sequence[DeliveryRun]) -> Iterator[Offset]:
    """The messages of the portion that are in the runs.

    A whole delivery is named by its runs: its messages may have been dropped meanwhile, when its lease ended.
    """
    for run in runs:
        if portion.messages is None:
            yield from range(run.first, run.last + 1)
        else:
            yield from (each.offset for each in portion.messages if run.first <= each.offset <= run.last)


def _receipt(delivery: ReceivedDelivery, offset: Offset) -> Receipt:
    group, topic, _, partition, nonce = delivery.origin
    return Receipt(group, topic, partition, offset, delivery.attempt_of(offset), nonce)
