"""Receipts as text: one way to write them, and all else refused by name (G14)."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.receipts import NONCE_BITS, OFFSET_MAX, Receipt, ReceiptRun
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


near = st.builds(
    Receipt,
    st.just("g"),
    st.sampled_from("tu"),
    st.integers(0, 1),
    st.integers(8, 12) | st.integers(OFFSET_MAX - 2, OFFSET_MAX),
    st.integers(1, 2),
    st.integers(0, 1),
)
rows = st.builds(
    lambda one, count: [str(one._replace(offset=one.offset + each)) for each in range(count)],
    near,
    st.integers(1, 5),
)
lists = st.lists(
    rows | st.lists(st.sampled_from(["", "g:t:0:08:1:000000000000", "nonsense"]), min_size=1), min_size=1
)


def each_by_itself(texts: list[str]) -> list[Receipt | str]:
    found: list[Receipt | str] = []
    for text in texts:
        try:
            found.append(Receipt.parse(text))
        except StaleReceipt:
            found.append(text)
    return found


def by_runs(texts: list[str]) -> list[Receipt | str]:
    found: list[Receipt | str] = []
    while len(found) < len(texts):
        try:
            run = ReceiptRun.parse(texts, len(found), 3)
        except StaleReceipt:
            found.append(texts[len(found)])
        else:
            assert 1 <= run.size <= 3
            offsets = range(run.first, run.last + 1)
            found += [
                Receipt(run.group, run.topic, run.partition, each, run.attempt, run.nonce) for each in offsets
            ]
            assert [run.text_of(each) for each in offsets] == texts[len(found) - run.size : len(found)]
    return found


@given(lists)
def test_receipts_are_read_in_runs_as_each_by_itself(lists: list[list[str]]) -> None:
    """Offsets beyond the largest are none, also behind one that is good (G6)."""
    texts = [text for row in lists for text in row]
    assert by_runs(texts) == each_by_itself(texts)


def test_a_run_is_as_long_as_the_receipts_are_neighbours() -> None:
    texts = [f"g:t:0:{offset}:1:00000000beef" for offset in (9, 10, 11, 13, 14)]
    assert ReceiptRun.parse(texts) == ReceiptRun("g", "t", 0, 9, 11, 1, 0xBEEF)
    assert ReceiptRun.parse(texts, 3) == ReceiptRun("g", "t", 0, 13, 14, 1, 0xBEEF)
    assert ReceiptRun.parse(texts, 0, 2).last == 10
