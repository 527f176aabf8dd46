"""Rows of record batches become runs for the producer: all of them, in order, as few as can be."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import RowRefused
from goqueue.spark.sink.runs import SendRun, runs_of
from goqueue.types import Priority

PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
TYPES = {
    "value": pa.binary(),
    "key": pa.binary(),
    "headers": pa.list_(PAIR),
    "priority": pa.int32(),
    "partition": pa.int32(),
    "delay": pa.float64(),
    "topic": pa.string(),
}
FEW = {
    "value": st.binary(max_size=3),
    "key": st.none() | st.binary(min_size=1, max_size=2),
    "headers": st.none() | st.just([]) | st.sampled_from([[("a", b"1")], [("a", b"1"), ("b", b"")]]),
    "priority": st.none() | st.sampled_from([0, 2, 4]),
    "partition": st.none() | st.integers(0, 1),
    "delay": st.none() | st.sampled_from([0.5, 2.0]),
    "topic": st.sampled_from(["orders", "bills"]),
}
"""Of each column so few values that neighbours are often alike."""

rows_of_some_columns = st.sets(st.sampled_from(sorted(FEW)), min_size=1).flatmap(
    lambda names: st.lists(
        st.fixed_dictionaries({name: FEW[name] for name in {*names, "value", "topic"}}), min_size=1
    )
)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    def cell(name: str, value: Any) -> Any:
        return [{"key": key, "value": each} for key, each in value] if name == "headers" and value else value

    arrays = {name: pa.array([cell(name, row[name]) for row in rows], TYPES[name]) for name in rows[0]}
    return pa.record_batch(arrays)


USUAL = {"headers": None, "priority": Priority.NORMAL, "partition": None, "delay": None, "deliver_at": None}
"""What a producer does where nothing is said."""


def common_of(run: SendRun, number: int) -> dict[str, Any]:
    own = {} if run.priorities is None else {"priority": run.priorities[number]}
    return {**USUAL, **run.options, **own, "topic": run.topic}


def shared_by(run: SendRun) -> dict[str, Any]:
    return {**common_of(run, 0), "priority": None}


def expected(row: dict[str, Any]) -> tuple[Any, ...]:
    """What is published of a row."""
    common = {**USUAL, **{name: value for name, value in row.items() if value is not None}}
    headers, priority = dict(common["headers"] or {}) or None, Priority(common["priority"])
    common = {**common, "headers": headers, "priority": priority}
    return row["value"], row.get("key"), {name: common[name] for name in (*USUAL, "topic")}


@given(rows_of_some_columns)
def test_every_row_is_in_one_run_in_its_place(rows: list[dict[str, Any]]) -> None:
    runs = list(runs_of(batch_of(rows), None))
    published = [
        (value, run.keys[number] if run.keys else None, common_of(run, number))
        for run in runs
        for number, value in enumerate(run.values)
    ]
    assert published == [expected(row) for row in rows]
    assert [run.first for run in runs] == [sum(len(run.values) for run in runs[:n]) for n in range(len(runs))]
    assert all(shared_by(one) != shared_by(other) for one, other in pairwise(runs)), "as few as can be"


def test_rows_with_nothing_but_values_and_keys_are_one_run_though_cut_from_a_larger_batch() -> None:
    batch = pa.record_batch({"value": ["é", "b", "c", ""], "key": [b"x", None, b"z", b""]}).slice(0, 3)
    [run] = runs_of(batch, "orders")
    assert run == (0, "orders", {}, ["é".encode(), b"b", b"c"], [b"x", None, b"z"], None)
    [later] = runs_of(batch.slice(1), "orders")
    assert later == (0, "orders", {}, [b"b", b"c"], [None, b"z"], None)


def test_the_topic_that_is_given_wins_over_the_column() -> None:
    batch = pa.record_batch({"value": [b"a", b"b"], "topic": ["bills", None]})
    assert [(run.topic, run.options) for run in runs_of(batch, "orders")] == [("orders", {})]


def test_priorities_have_names_and_headers_may_be_a_map() -> None:
    headers = pa.array([{"a": "1"}, None, {}], pa.map_(pa.string(), pa.string()))
    batch = pa.record_batch({"value": [b"", b"", b""], "priority": ["HIGH", "3", None], "headers": headers})
    assert [(run.options, run.priorities) for run in runs_of(batch, "orders")] == [
        ({"headers": {"a": b"1"}}, [Priority.HIGH]),
        ({"headers": None}, [Priority.LOW, Priority.NORMAL]),
    ]
    [alike] = runs_of(batch.slice(1, 1), "orders")
    assert (alike.options, alike.priorities) == ({"headers": None, "priority": Priority.LOW}, None)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Nowhere"])
def test_a_time_is_exact_whatever_its_zone_is_called(zone: str) -> None:
    moment = datetime(2026, 3, 1, 12, 0, 0, 123_457, UTC)
    column = pa.array([moment, None], pa.timestamp("us", "UTC")).view(pa.timestamp("us", zone))
    [first, second] = runs_of(pa.record_batch({"value": [b"", b""], "deliver_at": column}), "orders")
    assert round(first.options["deliver_at"] * 1_000_000) == round(moment.timestamp() * 1_000_000)
    assert second.options["deliver_at"] is None


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"value": [b"", b""], "topic": ["orders", None]}, "its topic is null, and the option topic is not given"),
        ({"value": [b"", b""], "topic": ["t", "t"], "priority": [0, 5]}, "5 is no priority"),
        ({"value": [b"", b""], "topic": ["t", "t"], "priority": ["low", "urgent"]}, "'urgent' is no priority"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_named(columns: dict[str, Any], fault: str) -> None:
    with pytest.raises(RowRefused, match=fault) as refused:
        list(runs_of(pa.record_batch(columns), None))
    assert refused.value.details == {"row": 1}


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        ([{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}], "two headers 'a'"),
        ([{"key": "goqueue-mine", "value": b"1"}], "header 'goqueue-mine': names that begin with 'goqueue-'"),
        ([{"key": "a", "value": None}], "header 'a' is null"),
        ([{"key": None, "value": b""}], "header None is null"),
        ([None], "header None is null"),
    ],
)
def test_headers_that_no_message_can_have_are_named(headers: list[Any], fault: str) -> None:
    column = pa.array([[], headers], pa.list_(PAIR))
    with pytest.raises(RowRefused, match=fault) as refused:
        list(runs_of(pa.record_batch({"value": [b"", b""], "headers": column}), "orders"))
    assert refused.value.details == {"row": 1}
