"""Messages of one call: encoded as single records would be, cut and picked without losing any."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.records.record import EXPIRES_AT, EXPIRES_AT_HEADER, MESSAGE_ID_HEADER, Flag, encode_record
from goqueue.core.sending.chunk import Chunk, Content

values = st.lists(st.binary(max_size=40), min_size=1, max_size=12)
headers = st.none() | st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3)


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    content = Content(
        draw(st.integers(0, 2**50)),
        draw(headers),
        draw(st.integers(0, 4)),
        draw(st.none() | st.just(77)),
        draw(st.none() | st.integers(0, 2**60)),
    )
    messages = draw(values)
    keys = draw(
        st.none() | st.lists(st.none() | st.binary(max_size=9), min_size=len(messages), max_size=len(messages))
    )
    deleted = draw(st.sets(st.integers(0, len(messages) - 1))) if keys else set()
    contents = [
        None if number in deleted and (keys or [])[number] else each for number, each in enumerate(messages)
    ]
    ids = draw(st.none() | st.just([b"id %d" % number for number in range(len(messages))]))
    own = st.lists(st.integers(0, 4), min_size=len(messages), max_size=len(messages))
    return Chunk(None, content, contents, range(len(messages)), keys, ids, None, draw(st.none() | own))


def encoded(chunk: Chunk, first: int = 0) -> bytes:
    pieces: list[bytes] = []
    chunk.encode(first, pieces)
    return b"".join(pieces)


def encoded_one_by_one(chunk: Chunk, first: int) -> bytes:
    records = []
    for number, value in enumerate(chunk.values):
        own = dict(chunk.content.headers or {})
        if chunk.ids is not None:
            own[MESSAGE_ID_HEADER] = chunk.ids[number]
        if chunk.content.expires_at is not None:
            own[EXPIRES_AT_HEADER] = EXPIRES_AT.pack(chunk.content.expires_at)
        key = None if chunk.keys is None else chunk.keys[number]
        records.append(
            encode_record(
                first + number,
                chunk.content.timestamp,
                value or b"",
                key=key,
                headers=own,
                flags=Flag.TOMBSTONE if value is None else 0,
                priority=chunk.content.priority if chunk.priorities is None else chunk.priorities[number],
                due=chunk.content.due,
            )
        )
    return b"".join(records)


@given(chunks(), st.integers(0, 1_000))
def test_a_chunk_is_encoded_as_its_messages_one_by_one(chunk: Chunk, first: int) -> None:
    assert encoded(chunk, first) == encoded_one_by_one(chunk, first)


@given(chunks(), st.integers(1, 400), st.integers(1, 12))
def test_cutting_keeps_every_message_in_order_and_the_first_part_within_its_bounds(
    chunk: Chunk, bytes_max: int, count_max: int
) -> None:
    fits, rest = chunk.cut(bytes_max, count_max)
    assert len(fits) == 1 or (fits.size <= bytes_max and len(fits) <= count_max)
    assert [*fits.values, *rest.values] == chunk.values
    assert [*fits.places, *rest.places] == list(chunk.places)
    assert encoded(fits) + encoded(rest, len(fits)) == encoded(chunk)


@given(chunks(), st.integers(1, 12))
def test_shares_are_runs_of_almost_equal_length(chunk: Chunk, count: int) -> None:
    shares = chunk.shares(min(count, len(chunk)))
    assert len(shares) == min(count, len(chunk))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert [value for share in shares for value in share.values] == chunk.values
    assert [place for share in shares for place in share.places] == list(chunk.places)
    first, pieces = 0, b""
    for share in shares:
        pieces, first = pieces + encoded(share, first), first + len(share)
    assert pieces == encoded(chunk)


@given(chunks(), st.data())
def test_what_is_picked_and_what_is_left_are_the_whole(chunk: Chunk, data: st.DataObject) -> None:
    numbers = sorted(data.draw(st.sets(st.integers(0, len(chunk) - 1))))
    picked, left = chunk.picked(numbers), chunk.without(set(numbers))
    assert sorted([*picked.places, *left.places]) == list(chunk.places)
    for part in (picked, left):
        assert [chunk.values[place] for place in part.places] == part.values
        assert part.keys == (chunk.keys and [chunk.keys[place] for place in part.places])
        assert part.ids == (chunk.ids and [chunk.ids[place] for place in part.places])
        assert part.priorities == (chunk.priorities and [chunk.priorities[place] for place in part.places])
