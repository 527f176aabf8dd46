"""The receipt of one delivery of one message: `group:topic:partition:offset:attempt:nonce`.

Names cannot hold a colon, so the text can be taken apart in one way only. The nonce is drawn anew for each delivery
and is written as hexadecimal digits; a client that has not received the message cannot guess it. Text that is no
receipt is refused here; whether a receipt is still good is for the ledger to say.
"""

import re
from collections.abc import Sequence
from itertools import islice
from reprlib import repr as shortened
from typing import NamedTuple

from goqueue.errors import StaleReceipt
from goqueue.types import Offset

NONCE_BITS = 48
OFFSET_MAX = 2**63 - 1
RUN_MAX = 1_000
"""Receipts of a run that are looked at in one step."""
_PARTITION_MAX = 2**31 - 1
_ATTEMPT_MAX = 2**31 - 1

_NAME = r"([A-Za-z0-9._-]{1,200})"
_NUMBER = r"(0|[1-9][0-9]{0,18})"
_SHAPE = re.compile(rf"{_NAME}:{_NAME}:{_NUMBER}:{_NUMBER}:{_NUMBER}:([0-9a-f]{{12}})")


def receipt_text(  # noqa: PLR0917  # in the order in which they stand
    group: str, topic: str, partition: int, offset: Offset, attempt: int, nonce: int
) -> str:
    head, tail = receipt_ends(group, topic, partition, attempt, nonce)
    return f"{head}{offset}{tail}"


def receipt_ends(group: str, topic: str, partition: int, attempt: int, nonce: int) -> tuple[str, str]:
    """What stands before the offset, and behind it: the same for all messages of a delivery on one attempt."""
    return f"{group}:{topic}:{partition}:", f":{attempt}:{nonce:012x}"


class Receipt(NamedTuple):
    group: str
    topic: str
    partition: int
    offset: Offset
    attempt: int
    nonce: int

    def __str__(self) -> str:
        return receipt_text(*self)

    @classmethod
    def parse(cls, text: object) -> "Receipt":
        """The receipt of this text, or `StaleReceipt`: no delivery has any other text."""
        shape = _SHAPE.fullmatch(text) if isinstance(text, str) else None
        if shape is None:
            raise _malformed(text)
        group, topic, partition, offset, attempt, nonce = shape.groups()
        receipt = cls(group, topic, int(partition), int(offset), int(attempt), int(nonce, 16))
        if not receipt._is_possible():
            raise _malformed(text)
        return receipt

    def _is_possible(self) -> bool:
        return self.partition <= _PARTITION_MAX and self.offset <= OFFSET_MAX and 1 <= self.attempt <= _ATTEMPT_MAX


class ReceiptRun(NamedTuple):
    """The receipts of neighbouring messages of one delivery, on the same attempt: what a poll brings in a row."""

    group: str
    topic: str
    partition: int
    first: Offset
    last: Offset
    attempt: int
    nonce: int

    @classmethod
    def parse(cls, texts: Sequence[str], begin: int = 0, most: int = RUN_MAX) -> "ReceiptRun":
        """The longest run of these receipts from `begin` on. `StaleReceipt` if there is none. Only the first one is
        taken apart: each receipt has one text, so the next one is known, and is compared."""
        group, topic, partition, first, attempt, nonce = Receipt.parse(texts[begin])
        head, tail = receipt_ends(group, topic, partition, attempt, nonce)
        last = first
        for text in islice(texts, begin + 1, begin + min(most, OFFSET_MAX - first + 1)):
            if text != f"{head}{last + 1}{tail}":
                break
            last += 1
        return cls(group, topic, partition, first, last, attempt, nonce)

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def text_of(self, offset: Offset) -> str:
        return receipt_text(self.group, self.topic, self.partition, offset, self.attempt, self.nonce)


def _malformed(text: object) -> StaleReceipt:
    return StaleReceipt(
        f"{shortened(text)} is not a receipt; hand back the one that came with the message, unchanged",
        [text] if isinstance(text, str) else (),
    )
