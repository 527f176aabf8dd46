"""Confirms which partitions have a group's ledger durably: the register notes it, so that a loss is noticed.

A partition answers that a group reads there before that is durable. So its board is looked at some time later, and
the register notes it when the ledger is durable. That happens once for each topic, and costs no sync of a ledger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from uuid import UUID

from goqueue.actors.groups.attachments import Attachments
from goqueue.actors.runtime.messages import News
from goqueue.core.groups.registry import SeenTopic


@dataclass(frozen=True, slots=True)
class LedgersDurable(News):
    """From a group to itself: this number of partitions, from the first on, have its ledger durably."""

    topic: str
    uuid: UUID
    partitions: int


def confirmed(group: str, attachments: Attachments, topics: Sequence[SeenTopic]) -> list[LedgersDurable]:
    """The confirmations that the register does not have yet; in the common case none."""
    news = []
    for seen in topics:
        begun = attachments.newly_begun(seen)
        safe = takewhile(lambda each: each.board is not None and each.board.is_durable(group), begun)
        count = seen.attached + len(list(safe))
        if count > seen.attached:
            news.append(LedgersDurable(seen.name, seen.uuid, count))
    return news
