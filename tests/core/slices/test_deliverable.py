"""Which records a group is handed, how long members wait, and where a group begins: the pure parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.groups.start import Start, parse_start
from goqueue.core.offsetset import OffsetSet, Run
from goqueue.core.records.batch import Attribute, accept, compress, envelope_for, parse_envelope, seal_envelope
from goqueue.core.records.record import (
    EXPIRES_AT,
    EXPIRES_AT_HEADER,
    FLAGS_FROM_BROKER,
    MESSAGE_ID_HEADER,
    Flag,
    encode_record,
)
from goqueue.core.slices.batchindex import BatchIndexes
from goqueue.core.slices.deliverable import (
    FOR_GROUP_HEADER,
    NO_BATCH,
    LastBatch,
    Reader,
    find_deliverable,
)
from goqueue.core.slices.picking import picked_records
from goqueue.errors import InvalidConfig
from tests.storage.logs import records_in

NOW = 1_000
READER = Reader("billing", NOW)
EVERYTHING = 2**63

KINDS = {
    "plain": {},
    "tombstone": {"flags": Flag.TOMBSTONE},
    "with id": {"headers": {MESSAGE_ID_HEADER: b"1"}},
    "young": {"headers": {EXPIRES_AT_HEADER: EXPIRES_AT.pack(NOW + 1)}},
    "ours": {"headers": {FOR_GROUP_HEADER: b"billing"}, "flags": Flag.FOR_ONE_GROUP},
    "fired": {"headers": {"goqueue-delayed-from": b"3"}, "flags": Flag.FIRED},
    "expired": {"headers": {EXPIRES_AT_HEADER: EXPIRES_AT.pack(NOW)}},
    "theirs": {"headers": {FOR_GROUP_HEADER: b"audit"}, "flags": Flag.FOR_ONE_GROUP},
    "control": {"flags": Flag.CONTROL},
    "delayed": {"due": 5},
    "ours and expired": {
        "headers": {FOR_GROUP_HEADER: b"billing", EXPIRES_AT_HEADER: EXPIRES_AT.pack(NOW - 1)},
        "flags": Flag.FOR_ONE_GROUP,
    },
}
HANDED_OUT = ("plain", "tombstone", "with id", "young", "ours", "fired")


def batch_of(base: int, *kinds: str, zstd: bool = False) -> bytes:
    body = b"".join(encode_record(place, base, b"", **KINDS[kind]) for place, kind in enumerate(kinds))  # type: ignore[arg-type]
    attributes = int(Attribute.ZSTD) if zstd else 0
    if "control" in kinds:
        attributes |= Attribute.CONTROL
    body = compress(body) if zstd else body
    batch = accept(body, len(kinds), attributes=attributes, allowed_flags=FLAGS_FROM_BROKER)
    envelope = envelope_for(batch, base, leader_epoch=1, append_time=1, durable_offset=0)
    return seal_envelope(envelope) + bytes(batch.body)


def log_of(*batches: tuple[str, ...], base: int = 0, zstd: bool = False) -> bytes:
    data = b""
    for kinds in batches:
        data += batch_of(base, *kinds, zstd=zstd)
        base += len(kinds)
    return data


def spread(runs: tuple[Run, ...] | list[Run]) -> list[int]:
    return [offset for run in runs for offset in range(run.first, run.last + 1)]


@pytest.mark.parametrize("zstd", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_group_is_handed(kind: str, zstd: bool) -> None:
    data = log_of(("plain", kind, "plain"), zstd=zstd)
    found = find_deliverable(data, 0, EVERYTHING, READER)
    assert spread(found.runs) == ([0, 1, 2] if kind in HANDED_OUT else [0, 2])
    assert found.scanned_to == 3


def test_plain_batches_are_one_run_and_their_records_are_not_looked_at() -> None:
    """A body that could not be walked is not missed."""
    data = bytearray(log_of(("plain",) * 3, ("plain", "with id")))
    for position in range(96, 96 + 60):
        data[position] = 0xFF
    assert find_deliverable(data, 1, EVERYTHING, READER).runs == (Run(1, 4),)


def test_an_envelope_says_that_a_record_is_for_one_group() -> None:
    envelope = parse_envelope(batch_of(0, "plain", "ours"))
    assert envelope is not None
    assert envelope.attributes == Attribute.HOLDS_FOR_ONE_GROUP


def test_an_empty_envelope_and_gaps_of_compaction_are_passed_over() -> None:
    data = log_of(("plain",) * 4, ("plain",) * 3)
    smaller = b"".join(BatchIndexes().cut_down(data, [Run(1, 1), Run(3, 3)]))
    envelope = parse_envelope(data)
    assert envelope is not None
    empty = envelope._replace(length=0, record_count=0, base_offset=4, last_offset_delta=2, priority_mask=0)
    found = find_deliverable(smaller + seal_envelope(empty), 0, EVERYTHING, READER)
    assert (found.runs, found.scanned_to) == ((Run(1, 1), Run(3, 3)), 7)


_batches = st.lists(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6).map(tuple), max_size=6)


@given(batches=_batches, start=st.integers(0, 40), count_max=st.integers(0, 40), zstd=st.booleans())
def test_the_first_so_many_messages_are_found_and_nothing_is_skipped(
    batches: list[tuple[str, ...]], start: int, count_max: int, zstd: bool
) -> None:
    kinds = [kind for batch in batches for kind in batch]
    data = log_of(*batches, zstd=zstd)
    found = find_deliverable(data, start, count_max, READER)
    wanted = [place for place, kind in enumerate(kinds) if place >= start and kind in HANDED_OUT]
    assert spread(found.runs) == wanted[:count_max]
    assert set(spread(found.runs)) <= {record.offset for record in records_in(found.data)}
    if len(wanted) > count_max:
        assert found.scanned_to <= wanted[count_max]
    assert found.scanned_to >= max([start, *[each + 1 for each in wanted[:count_max]]])
    assert not [each for each in wanted[count_max:] if each < found.scanned_to]


@given(batches=_batches, wanted=st.sets(st.integers(0, 40)), zstd=st.booleans())
def test_cut_down_batches_are_sound_and_hold_just_what_is_wanted(
    batches: list[tuple[str, ...]], wanted: set[int], zstd: bool
) -> None:
    data = log_of(*batches, zstd=zstd)
    runs = [Run(offset, offset) for offset in sorted(wanted)]
    everything = {record.offset: record for record in records_in(data)}
    indexes = BatchIndexes()
    indexes.keys_in(data, OffsetSet([Run(0, 40)]))  # what is remembered changes nothing
    kept = records_in(b"".join(indexes.cut_down(data, runs)))
    assert kept == [everything[offset] for offset in sorted(wanted & everything.keys())]
    assert [offset for offset, _ in picked_records(data, OffsetSet(runs))] == [record.offset for record in kept]


def test_a_run_over_many_batches_is_cut_down_in_all_of_them() -> None:
    data = log_of(*[("plain",) * 3] * 4)
    assert [each.offset for each in records_in(b"".join(BatchIndexes().cut_down(data, [Run(2, 9)])))] == list(
        range(2, 10)
    )


# Where a group begins.


def test_a_start_is_read() -> None:
    assert parse_start("earliest") == Start()
    assert parse_start("latest") == Start(is_latest=True)
    assert parse_start("offset:17") == Start(offset=17)
    assert parse_start("time:0") == Start(time=0)
    assert parse_start("last:20") == Start(last=20)


@pytest.mark.parametrize(
    "text", ["", "Latest", "offset:", "offset:-1", "time:1.5", "offset:1 ", "offset:" + "1" * 19]
)
def test_what_is_no_start_is_refused_and_what_would_be_is_said(text: str) -> None:
    """G14"""
    with pytest.raises(InvalidConfig, match="earliest, latest"):
        parse_start(text)


def test_it_is_said_which_batch_was_looked_at_last_and_how_large_it_is() -> None:
    """What is left of it is read next, as a whole."""
    first, second = batch_of(0, *["plain"] * 3), batch_of(3, *["plain"] * 5)
    assert find_deliverable(first + second, 0, 2, READER).last_batch == LastBatch(0, len(first))
    assert find_deliverable(first + second, 0, 4, READER).last_batch == LastBatch(3, len(second))
    assert find_deliverable(b"", 0, 4, READER).last_batch == NO_BATCH
