"""How far a stream is: every offset is in exactly one micro-batch, whatever the broker does meanwhile. No Spark."""

import json
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import DataLost
from goqueue.spark.reading.offsets import (
    Key,
    QueryPosition,
    backlogs,
    from_json,
    key_of,
    next_places,
    ranges_between,
    readable,
    refuse_other_messages,
    shares,
    to_json,
    to_look_at,
)
from goqueue.spark.reading.ranges import OffsetRange
from goqueue.spark.reading.topics import Reach

OLD, NEW = UUID(int=1), UUID(int=2)
LIMITS = st.none() | st.integers(1, 30)


def reach(partition: int = 0, start: int = 0, end: int = 100, *, uuid: UUID = OLD, epoch: int = 1) -> Reach:
    return Reach("orders", uuid, partition, epoch, start, end)


def places(**by_partition: int) -> dict[Key, QueryPosition]:
    """`p0=5`: partition 0 was read up to offset 5."""
    return {Key("orders", OLD, int(name[1:])): QueryPosition(1, offset) for name, offset in by_partition.items()}


def step(
    start: Mapping[Key, QueryPosition], found: list[Reach], rows_max: int | None = None, *, fails: bool = True
) -> tuple[dict[Key, QueryPosition], list[OffsetRange]]:
    """One micro-batch, by way of the JSON that Spark keeps: where it ends and what it reads."""
    end = next_places(backlogs(start, found, fail_on_data_loss=fails), rows_max)
    kept = from_json(json.loads(json.dumps(to_json(end))))
    assert kept == end
    return kept, ranges_between(start, kept)


# Every offset once


@given(st.data())
def test_every_offset_is_read_once_while_partitions_grow_and_are_added(data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=3))
    start: dict[Key, QueryPosition] = {}
    read: list[tuple[int, int]] = []
    for epoch in range(1, data.draw(st.integers(1, 6)) + 1):
        ends = [end + data.draw(st.integers(0, 20)) for end in ends] + [0] * data.draw(st.integers(0, 1))
        found = [reach(number, 0, end, epoch=epoch) for number, end in enumerate(ends)]
        limit = data.draw(LIMITS)
        start, ranges = step(start, found, limit)
        assert limit is None or sum(each.count for each in ranges) <= limit
        read += [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
    _, ranges = step(start, found)
    read += [(each.partition, offset) for each in ranges for offset in range(each.start, each.end)]
    assert sorted(read) == [(number, offset) for number, end in enumerate(ends) for offset in range(end)]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 60))
def test_a_limit_is_shared_out_and_used_up_and_nobody_waits_for_ever(counts: list[int], rows_max: int) -> None:
    taken = shares(counts, rows_max)
    assert sum(taken) == min(rows_max, sum(counts))
    assert all(0 <= each <= count for each, count in zip(taken, counts, strict=True))
    busy = [number for number, count in enumerate(counts) if count]
    assert rows_max < len(busy) or all(taken[number] for number in busy)


def test_nothing_new_is_the_same_offset_even_after_a_restart_of_the_broker() -> None:
    start = places(p0=100)
    end, ranges = step(start, [reach(epoch=2), reach(1, end=0, epoch=2)])
    assert to_json(end) == to_json(start)
    assert ranges == []


def test_a_run_ends_with_what_was_there_at_its_begin() -> None:
    targets = {Key("orders", OLD, 0): 60}
    waiting = backlogs(places(p0=50), [reach(), reach(1)], fail_on_data_loss=True, targets=targets)
    assert ranges_between(places(p0=50), next_places(waiting, None)) == [OffsetRange("orders", OLD, 0, 50, 60)]


def test_a_micro_batch_that_is_repeated_reads_the_same_offsets() -> None:
    """Of a new partition it is written down where it began, since its begin may have been removed later."""
    start, found = places(p0=100), [reach(), reach(1, start=40, end=90)]
    end, ranges = step(start, found)
    assert ranges == [OffsetRange("orders", OLD, 1, 40, 90)]
    later, more = step(end, [reach(end=110), reach(1, start=80, end=95)])
    assert ranges_between(start, end) == ranges
    assert [(each.partition, each.start, each.end) for each in more] == [(0, 100, 110), (1, 90, 95)]
    assert all(place.begin is None for place in later.values())


# What is lost

LOSSES: list[tuple[str, list[Reach], str, list[tuple[int, int]]]] = [
    ("removed", [reach(start=60)], "offsets 50 to 59 of orders/0 are no longer there", [(60, 100)]),
    ("cut back", [reach(end=30)], "orders/0 ends at offset 30, though it had reached 50", []),
    ("made anew", [reach(uuid=NEW, end=7)], "topic orders was deleted and made anew", [(0, 7)]),
    ("deleted", [], "topic orders was deleted, and the query was at offset 50", []),
    ("an older copy", [reach(epoch=0)], "was read in epoch 1 and is now in epoch 0", [(50, 100)]),
]


@pytest.mark.parametrize(("found", "told", "read"), [each[1:] for each in LOSSES], ids=[each[0] for each in LOSSES])
def test_a_loss_is_told_or_passed_over(found: list[Reach], told: str, read: list[tuple[int, int]]) -> None:
    start = places(p0=50)
    with pytest.raises(DataLost, match=told):
        step(start, found)
    end, ranges = step(start, found, fails=False)
    assert [(each.start, each.end) for each in ranges] == read
    if found:
        again, more = step(end, [replace(each, epoch=each.epoch + 2) for each in found])
        assert (again, more) == (end, []), "once it is accepted, the query goes on as ever"


def test_the_log_is_looked_at_where_the_broker_was_started_since_and_has_the_message_before() -> None:
    start = places(p0=50, p1=50, p2=50, p3=0, p4=50)
    found = [
        reach(0, epoch=2),
        reach(1, epoch=1),
        reach(2, epoch=2, start=50),
        reach(3, epoch=2),
        reach(5, epoch=2),
    ]
    assert to_look_at(start, found) == [(found[0], QueryPosition(1, 50))]


def test_messages_that_were_written_after_the_noted_epoch_are_others() -> None:
    for epoch in (None, 0, 1):
        refuse_other_messages(reach(epoch=3), QueryPosition(1, 50), epoch)
    with pytest.raises(DataLost, match=r"up to offset 50 in epoch 1, .* written in epoch 2: an older copy"):
        refuse_other_messages(reach(epoch=3), QueryPosition(1, 50), 2)


def test_a_micro_batch_whose_messages_were_lost_before_it_was_repeated_is_told_or_passed_over() -> None:
    planned = [OffsetRange("orders", OLD, 0, 10, 50), OffsetRange("orders", OLD, 1, 0, 5)]
    for found, told, left in (
        ([reach(start=20), reach(1)], "offsets 10 to 19", [(0, 20, 50), (1, 0, 5)]),
        ([reach(end=30), reach(1)], "ends at offset 30", [(0, 10, 30), (1, 0, 5)]),
        ([reach(uuid=NEW)], "made anew", []),
    ):
        with pytest.raises(DataLost, match=told):
            readable(planned, found, fail_on_data_loss=True)
        kept = readable(planned, found, fail_on_data_loss=False)
        assert [(each.partition, each.start, each.end) for each in kept] == left
    assert readable(planned, [reach(), reach(1)], fail_on_data_loss=True) == planned
    assert {key_of(each) for each in planned} == set(places(p0=0, p1=0))
