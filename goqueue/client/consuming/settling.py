"""Settlements of a consumer: those of one turn of the event loop share a frame.

    say, or Unconfirmed ─► gathered ─► a frame at the end of the turn ─► answered: settled, or stale
                                                                   └───► not settled now, connection lost: repeated

Every settlement can be repeated: the broker knows a receipt that it has settled in this way before. So after a lost
answer the same is said again, and after an answer only the deliveries whose partition could not settle now.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import trio

from goqueue.client.consuming.delivery import Portion, ReceivedDelivery
from goqueue.client.consuming.stock import Stock
from goqueue.client.link.caller import Caller
from goqueue.client.link.link import Link
from goqueue.core.ledger.settlements import Action
from goqueue.core.receipts import Receipt
from goqueue.errors import GoQueueError, StaleReceipt
from goqueue.net.wire.failures import error_of, final
from goqueue.net.wire.groups import DeliveryRun, Settle, Settled, SettledDelivery, SettleDelivery
from goqueue.net.wire.kinds import Answer
from goqueue.net.wire.messages import Error
from goqueue.types import Offset

PORTIONS_MAX = 1_000
"""Maximum number of portions in one frame."""
RUNS_OF_A_WHOLE = 4
REPEAT_SECONDS_MAX = 30.0
PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.05, 2.0
IN_TURN_MIN = 3
"""After so many settlements of which each was answered before the next was said, the program says one at a time:
nothing else will come in the same turn, and the next one is sent without waiting for its end."""

AnswerT = TypeVar("AnswerT")


class Word(NamedTuple):
    """A settlement of messages: action, delay and reason."""

    action: Action
    delay_ms: int | None = None
    reason: str = ""


class SettleOutcome:
    """The outcome of one settlement of many messages: the stale receipts, and the first other error."""

    stale: Sequence[tuple[ReceivedDelivery, list[Offset]]] = ()
    error: GoQueueError | None = None

    def check(self) -> None:
        if self.error is not None or self.stale:
            error = self.first_error()
            assert error is not None
            raise error

    def first_error(self) -> GoQueueError | None:
        if self.error is not None or not self.stale:
            return self.error
        receipts = [str(_receipt(delivery, offset)) for delivery, some in self.stale for offset in some]
        return StaleReceipt(
            f"{len(receipts)} of the leases had ended, {receipts[0]} among them: others may have them; "
            "settle sooner, extend, or ask for a longer visibility_timeout",
            receipts,
        )


class Saying:
    """A settlement on its way. `on_end` is called when every portion was answered, or the frame has failed."""

    __slots__ = ("again", "left", "on_end", "outcome", "portions", "word")

    def __init__(self, word: Word, portions: Sequence[Portion], on_end: Callable[["Saying"], None]) -> None:
        self.word = word
        self.portions = portions
        self.on_end = on_end
        self.left = len(portions)
        self.outcome = SettleOutcome()
        self.again: list[Portion] = []
        """Portions that have to be settled again: their partition could not do it now, or the answer was lost."""

    def end_one(self) -> None:
        self.left -= 1
        if not self.left:
            self.on_end(self)


class SaidPart(NamedTuple):
    saying: Saying
    portion: Portion


class Settling:
    def __init__(self, client: Caller, group: str, stock: Stock) -> None:
        self._client = client
        self._group = group
        self._stock = stock
        self._gathered: list[Saying] = []
        self.collect: Callable[[], Iterable[Saying]] = tuple
        """Called before a frame is made: what travels along with it."""
        self._is_due = False
        self._said = 0
        """Settlements that are said and not answered."""
        self._in_turn = 0
        """How many were said since two were under way."""

    # Together with others of this turn

    async def say(self, word: Word, portions: Sequence[Portion]) -> SettleOutcome:
        """Settle these. Settled and stale messages are no longer in flight."""
        if not portions:
            return SettleOutcome()
        if len(portions) > PORTIONS_MAX:
            return await self._say_many(word, portions)
        self._in_turn = 0 if self._said else self._in_turn + 1
        self._said += 1
        ended = trio.Event()
        saying = Saying(word, portions, lambda _: ended.set())
        try:
            self._gather(saying)
            await ended.wait()
        finally:
            self._said -= 1
        if saying.again:
            await self.repeat(word, saying.again, saying.outcome)
        return saying.outcome

    def _gather(self, saying: Saying) -> None:
        self._gathered.append(saying)
        link = self._client.link
        if link is not None and self._in_turn > IN_TURN_MIN and not self._is_due:
            self._post(link)
        else:
            self.post_soon()

    async def _say_many(self, word: Word, portions: Sequence[Portion]) -> SettleOutcome:
        outcome = SettleOutcome()
        for begin in range(0, len(portions), PORTIONS_MAX):
            await self.repeat(word, portions[begin : begin + PORTIONS_MAX], outcome)
        return outcome

    def post_soon(self) -> None:
        """Send everything gathered at the end of this turn of the event loop."""
        link = self._client.link
        if link is None or link.is_over:
            self._fail(self._take())
        elif not self._is_due:
            self._is_due = True
            link.settle_at_end_of_turn(partial(self._post, link))

    def post_now(self, link: Link) -> bool:
        """Send everything gathered. Returns whether the socket has all of it."""
        self._post(link, at_once=True)
        return not self._gathered and link.hand_over()

    def _post(self, link: Link, *, at_once: bool = False) -> None:
        self._is_due, is_unhurried = False, not self._gathered
        sayings = self._take()
        if not sayings:
            return
        if link.is_over:
            self._fail(sayings)
        elif link.has_settlement_room:
            self._send(link, sayings, is_unhurried=is_unhurried, at_once=at_once)
        else:
            self._gathered, self._is_due = sayings, True
            link.when_settlement_room(partial(self._post, link))

    def _take(self) -> list[Saying]:
        gathered, self._gathered = self._gathered, []
        return [*gathered, *self.collect()]

    def _send(self, link: Link, sayings: Sequence[Saying], *, is_unhurried: bool, at_once: bool) -> None:
        entries = _combined(sayings)
        for begin in range(0, len(entries), PORTIONS_MAX):
            some = entries[begin : begin + PORTIONS_MAX]
            deliveries = tuple([_settle_delivery(word, portion) for word, portion, _ in some])
            request = Settle(self._group, deliveries, is_unhurried)
            try:
                link.post_settlement(request, partial(self._answered, some), at_once=at_once)
            except GoQueueError as error:
                self._answered(some, error)

    def _answered(self, entries: Sequence["FrameEntry"], answer: Answer | GoQueueError) -> None:
        if isinstance(answer, GoQueueError):
            failed = final(answer)
            for _, _, parts in entries:
                for part in parts:
                    self._note_failure(part, failed)
            return
        assert isinstance(answer, Settled)
        for (word, portion, parts), settled in zip(entries, answer.deliveries, strict=True):
            if settled.error is None and not settled.stale and len(parts) > 1:
                self._note(word, portion, settled, parts[0].saying.outcome)  # all of them at once
                for part in parts:
                    part.saying.end_one()
            else:
                for part in parts:
                    self._note_part(part, settled)

    def _note_failure(self, part: SaidPart, failed: GoQueueError) -> None:
        if failed.retryable:
            part.saying.again.append(part.portion)
        else:
            part.saying.outcome.error = part.saying.outcome.error or failed
        part.saying.end_one()

    def _note_part(self, part: SaidPart, settled: SettledDelivery) -> None:
        saying, portion = part
        if settled.error is not None and settled.error.retryable:
            saying.again.append(portion)
        elif settled.error is not None and _is_whole(saying.word, portion) and _is_stale(settled.error):
            saying.again.append(portion._replace(is_named=True))
        else:
            self._note(saying.word, portion, settled, saying.outcome)
        saying.end_one()

    def _fail(self, sayings: Iterable[Saying]) -> None:
        """There is no connection: each is said again when there is one."""
        for saying in sayings:
            saying.again = list(saying.portions)
            saying.on_end(saying)

    # By itself

    async def repeat(
        self,
        word: Word,
        portions: Sequence[Portion],
        outcome: SettleOutcome,
        seconds_max: float = REPEAT_SECONDS_MAX,
    ) -> None:
        deadline, pause = trio.current_time() + seconds_max, PAUSE_SECONDS_MIN
        while True:
            request = Settle(self._group, tuple([_settle_delivery(word, portion) for portion in portions]))
            answer = await self._client.call(request, Settled)
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
        stale = list(_offsets_in(portion, settled.stale)) if settled.stale else []
        if stale:
            outcome.stale = [*outcome.stale, (portion.delivery, stale)]
        if word.action in ENDING:
            self._stock.settle(portion.delivery, portion.offsets)
        elif stale:
            self._stock.drop_some(portion.delivery, stale)


ENDING = frozenset({Action.ACK, Action.NACK, Action.REJECT, Action.RELEASE})
"""Afterwards the message is no longer in flight here."""


class FrameEntry(NamedTuple):
    """What a frame says of one delivery, and whose portions these are."""

    word: Word
    portion: Portion
    parts: list[SaidPart]


def _combined(sayings: Sequence[Saying]) -> list[FrameEntry]:
    """Portions of the same delivery that are settled in the same way, one behind the other, travel as one."""
    if len(sayings) == 1 and len(sayings[0].portions) == 1:
        [saying], [portion] = sayings, sayings[0].portions
        return [FrameEntry(saying.word, portion, [SaidPart(saying, portion)])]
    entries: list[FrameEntry] = []
    last: dict[ReceivedDelivery, int] = {}
    for saying in sayings:
        for portion in saying.portions:
            place = last.get(portion.delivery)
            if place is not None and _fits(entries[place], saying.word, portion):
                entries[place] = _with(entries[place], saying, portion)
            else:
                last[portion.delivery] = len(entries)
                entries.append(FrameEntry(saying.word, portion, [SaidPart(saying, portion)]))
    return entries


def _fits(entry: FrameEntry, word: Word, portion: Portion) -> bool:
    return entry.word == word and entry.portion.messages is not None and portion.messages is not None


def _with(entry: FrameEntry, saying: Saying, portion: Portion) -> FrameEntry:
    """The list of a combined portion belongs to it alone, and grows."""
    some, more = entry.portion.messages, portion.messages
    assert some is not None
    assert more is not None
    messages = some if len(entry.parts) > 1 and isinstance(some, list) else list(some)
    messages.extend(more)
    entry.parts.append(SaidPart(saying, portion))
    return entry._replace(portion=Portion(portion.delivery, messages))


def _settle_delivery(word: Word, portion: Portion) -> SettleDelivery:
    delivery, origin = portion.delivery, portion.delivery.origin
    is_whole, by_sets = _is_whole(word, portion), delivery.names.are_scattered
    return SettleDelivery(
        origin.uuid,
        origin.partition,
        origin.nonce,
        int(word.action),
        () if is_whole or by_sets else portion.runs,
        word.delay_ms,
        word.reason,
        delivery.names.count if is_whole else 0,
        portion.sets if by_sets and not is_whole else (),
    )


def _is_whole(word: Word, portion: Portion) -> bool:
    """Worth it only with many runs, as with several lanes, and in the order of keys."""
    if portion.messages is not None or portion.is_named or word.action is not Action.ACK:
        return False
    names = portion.delivery.names
    return names.are_scattered or len(names.runs) >= RUNS_OF_A_WHOLE


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
