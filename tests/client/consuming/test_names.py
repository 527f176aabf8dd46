"""Messages of a delivery, named by runs or by sets: the same to everybody who asks."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.consuming.delivery import Origin, open_delivery
from goqueue.client.consuming.names import NO_NAMES, DeliveredNames
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.record import encode_record
from goqueue.core.slices.batchindex import BatchIndexes
from goqueue.core.slices.deliverable import Reader
from goqueue.core.slices.lanestretch import WantedRecords, cut_lane
from goqueue.net.wire.groups import DeliveryRun, DeliverySet, OffsetChunk
from tests.client.reading.test_message import sealed
from tests.core.ledger.parts import together

ORIGIN = Origin("billing", "orders", bytes(16), 0, 7)
attempts = st.dictionaries(st.integers(0, 9_000), st.integers(1, 3), min_size=1, max_size=60)


def by_sets(named: dict[int, int]) -> DeliveredNames:
    sets = []
    for attempt in sorted(set(named.values())):
        offsets = OffsetSet.of(offset for offset, each in named.items() if each == attempt)
        sets.append(DeliverySet(attempt, tuple(map(OffsetChunk._make, offsets.chunks()))))
    return DeliveredNames((), sets)


def by_runs(named: dict[int, int]) -> DeliveredNames:
    numbers = sorted(set(named.values()))
    rows = [(number, together(o for o, each in named.items() if each == number)) for number in numbers]
    return DeliveredNames(tuple(sorted(DeliveryRun(*run, number) for number, runs in rows for run in runs)))


@given(attempts)
def test_sets_and_runs_say_the_same(named: dict[int, int]) -> None:
    for names in (by_sets(named), by_runs(named)):
        assert names.count == len(named)
        assert sorted(names.offsets()) == sorted(named)
        assert names.bounds == (min(named), max(named))
        assert {offset: names.attempt_of(offset) for offset in named} == named
    assert by_sets(named).runs == by_runs(named).runs
    assert by_sets(named).are_scattered
    assert not by_runs(named).are_scattered


def test_a_full_chunk_is_named_by_no_bytes() -> None:
    names = DeliveredNames((), [DeliverySet(1, (OffsetChunk(1, b""),))])
    assert (names.count, names.bounds) == (4_096, (4_096, 8_191))
    assert NO_NAMES.count == 0


def test_messages_are_handed_out_as_the_data_has_them_and_those_not_named_are_left_out() -> None:
    """Pieces of a batch, lane by lane: each keeps the range of the whole."""
    whole = sealed(*[encode_record(number, 0, b"%d" % number, priority=number % 3) for number in range(9)])
    cut = [cut_lane(whole, 9, WantedRecords(lane, 0, 100), Reader("g", 0), BatchIndexes()) for lane in range(3)]
    data = b"".join(part for each in cut for part in each.first(0, 100).parts)
    names = by_sets(dict.fromkeys((0, 3, 6, 1, 4, 7, 8), 1))
    delivery = open_delivery(ORIGIN, names, data, owner=None)
    assert [message.offset for message in delivery.messages] == [0, 3, 6, 1, 4, 7, 8]
    assert [message.value for message in delivery.messages] == [b"0", b"3", b"6", b"1", b"4", b"7", b"8"]
    assert len(delivery) == 7


@given(attempts, st.data())
def test_some_of_a_delivery_are_named_by_the_sets_they_came_with(
    named: dict[int, int], data: st.DataObject
) -> None:
    some = data.draw(st.sets(st.sampled_from(sorted(named))))
    names = by_sets(named)
    again = DeliveredNames((), names.sets_of(some))
    assert {offset: again.attempt_of(offset) for offset in again.offsets()} == {each: named[each] for each in some}
    assert DeliveredNames((), names.sets_of(None)).runs == names.runs
