"""The receipts of one request, by delivery, and what became of each.

Receipts come as polls have brought them: neighbours in a row. They are kept as runs, so that five hundred cost
little more than one, and none of them is an object of its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from goqueue.core.offsetset import OffsetSet
from goqueue.core.receipts import ReceiptRun
from goqueue.errors import GoQueueError, InvalidName, StaleReceipt, UnknownGroup, UnknownPartition, UnknownTopic
from goqueue.http.members.holding import DeliveryKey
from goqueue.http.messages.publishing import PARTLY, error_in_json
from goqueue.http.server.errors import InvalidRequest, status_of
from goqueue.net.wire.groups import DeliveryRun
from goqueue.storage.slices import Slices

DELIVERIES_AT_ONCE = 200
"""Limit of the deliveries that are settled together: a request may name one for each receipt, and each is a
question to its partition."""
RUNS_AT_ONCE = 1_000
"""Limit of their runs: a partition looks at each in one step."""
GONE = (StaleReceipt, UnknownTopic, UnknownPartition, UnknownGroup, InvalidName)
"""What a receipt was for is no longer there."""


class DeliveryReceipts(NamedTuple):
    """Receipts of one delivery. Their runs are in order and apart from each other."""

    key: DeliveryKey
    runs: tuple[ReceiptRun, ...]

    @property
    def delivery_runs(self) -> tuple[DeliveryRun, ...]:
        return tuple([DeliveryRun(each.first, each.last, each.attempt) for each in self.runs])

    @property
    def offsets(self) -> OffsetSet:
        return OffsetSet((each.first, each.last) for each in self.runs)

    def texts(self, among: OffsetSet | None = None) -> Iterator[str]:
        """The receipts of these offsets, or all of them."""
        for run in self.runs:
            whole = ((run.first, run.last),)
            for first, last in whole if among is None else among.runs(run.first, run.last):
                yield from map(run.text_of, range(first, last + 1))


@dataclass(slots=True)
class ReceiptSettlement:
    settled: list[tuple[DeliveryKey, OffsetSet]] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    _statuses: set[int] = field(default_factory=set)

    @property
    def status(self) -> int:
        if not self.stale and not self.failed:
            return 200
        if self.settled:
            return PARTLY
        return max(self._statuses, default=409)

    @property
    def in_json(self) -> dict[str, Any]:
        count = sum(len(offsets) for _, offsets in self.settled)
        return {"settled": count, "stale": self.stale} | ({"failed": self.failed} if self.failed else {})

    def note_settled(self, named: DeliveryReceipts, stale: Sequence[DeliveryRun]) -> None:
        offsets = named.offsets
        if stale:
            settled = offsets.without(OffsetSet((run.first, run.last) for run in stale))
            self.note_stale(named.texts(offsets.without(settled)))
            offsets = settled
        if offsets:
            self.settled.append((named.key, offsets))

    def note_stale(self, receipts: Iterable[str]) -> None:
        self.stale += receipts
        self._statuses.add(status_of(StaleReceipt("")))

    def note_failed(self, receipts: Iterable[str], error: GoQueueError) -> None:
        if isinstance(error, GONE):
            self.note_stale(receipts)
            return
        self._statuses.add(status_of(error))
        self.failed += [{"receipt": each, **error_in_json(error)} for each in receipts]


def portions_of(group: Sequence[DeliveryReceipts]) -> Iterator[list[DeliveryReceipts]]:
    """What is settled together."""
    portion, runs = list[DeliveryReceipts](), 0
    for each in _small(group):
        if len(portion) == DELIVERIES_AT_ONCE or runs + len(each.runs) > RUNS_AT_ONCE:
            yield portion
            portion, runs = [], 0
        portion.append(each)
        runs += len(each.runs)
    yield portion


def _small(group: Iterable[DeliveryReceipts]) -> Iterator[DeliveryReceipts]:
    for each in group:
        for begin in range(0, len(each.runs), RUNS_AT_ONCE):
            yield each._replace(runs=each.runs[begin : begin + RUNS_AT_ONCE])


async def receipts_by_group(
    receipts: Sequence[str], settlement: ReceiptSettlement
) -> dict[str, list[DeliveryReceipts]]:
    """What is no receipt is stale."""
    found: dict[DeliveryKey, list[ReceiptRun]] = {}
    slices, at = Slices(), 0
    while at < len(receipts):
        try:
            run = ReceiptRun.parse(receipts, at)
        except StaleReceipt:
            settlement.note_stale([receipts[at]])
            at += 1
        else:
            found.setdefault(DeliveryKey(run.group, run.topic, run.partition, run.nonce), []).append(run)
            at += run.size
        await slices.step()
    groups: dict[str, list[DeliveryReceipts]] = {}
    for key, runs in found.items():
        groups.setdefault(key.group, []).append(DeliveryReceipts(key, tuple(_in_order(runs))))
        await slices.step()
    return groups


def _in_order(runs: list[ReceiptRun]) -> list[ReceiptRun]:
    """A receipt that was sent twice counts once."""
    runs.sort()
    found = runs[:1]
    for run in runs[1:]:
        before = found[-1]
        if run.first <= before.last and run.attempt != before.attempt:
            twice = run.text_of(run.first)
            raise InvalidRequest(f"two receipts are of the same message, {twice} one of them; send the newest")
        if run.first <= before.last + 1 and run.attempt == before.attempt:
            found[-1] = before._replace(last=max(before.last, run.last))
        else:
            found.append(run)
    return found
