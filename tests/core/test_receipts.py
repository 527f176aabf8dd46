"""Receipts as text: one way to write them, and all else refused by name (G14)."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.receipts import NONCE_BITS, OFFSET_MAX, Receipt
from goqueue.errors import StaleReceipt

names = st.text("abzAZ09._-", min_size=1, max_size=200)
receipts = st.builds(
    Receipt,
    names,
    names,
    st.integers(0, 2**31 - 1),
    st.integers(0, OFFSET_MAX),
    st.integers(1, 2**31 - 1),
    st.integers(0, 2**NONCE_BITS - 1),
)


def test_a_receipt_reads_as_the_specification_has_it() -> None:
    assert str(Receipt("billing", "orders", 2, 4711, 1, 0xBEEF)) == "billing:orders:2:4711:1:00000000beef"


@given(receipts)
def test_what_was_written_is_read(receipt: Receipt) -> None:
    assert Receipt.parse(str(receipt)) == receipt


@pytest.mark.parametrize(
    "text",
    [
        "",
        "g:t:0:0:1",
        "g:t:0:0:1:00000000beef:x",
        "g:t:0:0:0:00000000beef",
        "g:t:-1:0:1:00000000beef",
        "g:t:0:01:1:00000000beef",
        "g:t:0:٣:1:00000000beef",
        "g:t:0:9999999999999999999:1:00000000beef",
        "g:t:4294967296:0:1:00000000beef",
        "g:t:0:0:1:beef",
        "g:t:0:0:1:00000000BEEF",
        "g:t:0:0:1:00000000beef\n",
        "g/..:t:0:0:1:00000000beef",
        ":t:0:0:1:00000000beef",
        f"{'g' * 201}:t:0:0:1:00000000beef",
        b"g:t:0:0:1:00000000beef",
        None,
        7,
    ],
)
def test_what_is_no_receipt_is_refused_with_what_to_do(text: object) -> None:
    """G14"""
    with pytest.raises(StaleReceipt, match="hand back the one that came with the message") as caught:
        Receipt.parse(text)
    assert caught.value.receipts == ([text] if isinstance(text, str) else [])


@given(st.text())
def test_any_text_is_read_as_it_was_written_or_refused(text: str) -> None:
    with suppress(StaleReceipt):
        assert str(Receipt.parse(text)) == text
