"""A request that did not come in a frame is held to the bounds of one that did."""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import ProtocolError
from goqueue.net.wire.codec import check_bounds, open_strictly, read_body
from goqueue.net.wire.fields import SCALAR_SIZE_MAX, Count, Range, Size
from goqueue.net.wire.groups import AlterGroup, CommitOffsets, CommitPartition, DeliveryRun, Settle
from goqueue.net.wire.kinds import ANSWERS, KINDS
from goqueue.net.wire.limits import Limits
from goqueue.net.wire.messages import DescribeTopics, Produce, ProduceBatch
from goqueue.net.wire.schemas import SCHEMA_SIZE_MAX, LookUpSchema, SchemaBody
from tests.net import bodies
from tests.net.strategies import any_request

LIMITS = Limits()
LARGE = 2**20
"""A larger edge is not tried: it would take a gigabyte."""

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def smallest(body: Any) -> Any:
    """The first request that the strategy tries: every number and list at its lowest."""
    hints = get_type_hints(body, include_extras=True)
    return body(*(lowest(hints[name]) for name in body._fields))


def lowest(annotation: Any) -> Any:
    base, limit = limit_of(annotation)
    if isinstance(limit, Range):
        return limit.lowest
    if isinstance(limit, Size):
        return base() if not limit.smallest else bytes(limit.smallest)
    if isinstance(limit, Count):
        return {} if get_origin(base) is dict else ()
    return smallest(annotation) if hasattr(annotation, "_fields") else False


def limit_of(annotation: Any) -> tuple[Any, Any]:
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = [each for each in get_args(annotation) if each is not NoneType]
    return get_args(annotation) if get_origin(annotation) is Annotated else (annotation, None)


def edges() -> Iterator[tuple[Any, Any]]:
    """For each bound of each field of each request: one at the bound, and one beyond it."""
    for kind in ANSWERS:
        hints = get_type_hints(kind, include_extras=True)
        for name in kind._fields:
            base, limit = limit_of(hints[name])
            for good, bad in values_around(base, limit):
                yield smallest(kind)._replace(**{name: good}), smallest(kind)._replace(**{name: bad})


def values_around(base: Any, limit: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(limit, Range):
        yield limit.lowest, limit.lowest - 1
        yield limit.highest, limit.highest + 1
    elif isinstance(limit, Size) and limit.largest < LARGE:
        unit = "x" if base is str else b"x"
        yield unit * limit.largest, unit * (limit.largest + 1)
    elif isinstance(limit, Count) and get_origin(base) is dict:
        pairs = {str(number): None for number in range(limit.most + 1)}
        yield dict(list(pairs.items())[: limit.most]), pairs
    elif isinstance(limit, Count):
        item = lowest(get_args(base)[0])
        yield (item,) * limit.most, (item,) * (limit.most + 1)


def test_every_bound_of_every_request_holds_at_its_edge() -> None:
    tried = 0
    for good, bad in edges():
        assert check_bounds(good, LIMITS) == good
        with pytest.raises(ProtocolError):
            check_bounds(bad, LIMITS)
        tried += 1
    assert tried > 100


@given(any_request)
def test_a_request_within_its_bounds_is_the_same_afterwards(request: Any) -> None:
    assert check_bounds(request, LIMITS) == request


def as_read(body: Any) -> Any:
    """What the strict reader makes of the same fields, or None."""
    try:
        return read_body(open_strictly(msgpack.packb([KINDS[type(body)], 7, body])), LIMITS.items_max).body
    except (ProtocolError, TypeError, ValueError, OverflowError):
        return None


@given(any_request, st.integers(0, 20), anything)
def test_a_request_with_anything_in_a_field_is_refused_exactly_if_its_frame_is(
    body: Any, place: int, value: Any
) -> None:
    if body:
        body = body._replace(**{body._fields[place % len(body)]: value})
    expected = as_read(body)
    if expected is None:
        with pytest.raises(ProtocolError):
            check_bounds(body, LIMITS)
    else:
        assert repr(check_bounds(body, LIMITS)) == repr(expected)  # of a NaN, only the repr is equal


BATCH = ProduceBatch(bytes(16), 1, 2, 3, 4, 5, 0, 1, b"body")


@pytest.mark.parametrize(
    "request_",
    [
        Produce(1, (BATCH, BATCH._replace(partition=-1))),
        Produce(1, (BATCH._replace(topic=bytes(15)),)),
        Produce(True, (BATCH,)),
        Settle("g", (bodies.settle(bytes(16), 0, 1, 9, ()),)),
        DescribeTopics(("lone surrogate \ud800",)),
        AlterGroup("g", {"list": [1]}),  # type: ignore[dict-item]
        AlterGroup("g", {"large": bytes(SCALAR_SIZE_MAX + 1)}),
        AlterGroup("g", {"large": "x" * (SCALAR_SIZE_MAX + 1)}),
        AlterGroup("g", {"odd": object()}),  # type: ignore[dict-item]
        AlterGroup("g", {"vast": 2**64}),
    ],
)
def test_what_lies_inside_is_held_to_its_bounds_too(request_: Any) -> None:
    with pytest.raises(ProtocolError):
        check_bounds(request_, LIMITS)


def test_the_text_of_a_schema_may_be_larger_than_one_in_a_map() -> None:
    large = LookUpSchema("orders", SchemaBody("x" * SCHEMA_SIZE_MAX))
    assert check_bounds(large, LIMITS) == large
    with pytest.raises(ProtocolError, match=r"LookUpSchema\.schema"):
        check_bounds(LookUpSchema("orders", SchemaBody("x" * (SCHEMA_SIZE_MAX + 1))), LIMITS)


def test_all_lists_of_a_request_together_are_bounded() -> None:
    runs = tuple(DeliveryRun(number, number, 1) for number in range(LIMITS.items_max // 4))
    few = Settle("g", (bodies.settle(bytes(16), 0, 1, 0, runs),) * 3)
    assert check_bounds(few, LIMITS) == few
    with pytest.raises(ProtocolError, match="more items"):
        check_bounds(Settle("g", few.deliveries * 2), LIMITS)


def test_plain_tuples_become_what_the_reader_makes_of_them() -> None:
    plain: Any = ((bytes(16), 0, 5),)
    commit = CommitOffsets("g", None, 0, plain, 0)
    assert check_bounds(commit, LIMITS).partitions == (CommitPartition(bytes(16), 0, 5),)
    assert type(check_bounds(commit, LIMITS).partitions[0]) is CommitPartition
