"""Message ids: a repeat within two minutes is answered with the first offset, bad ids by name (G14)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.log.messageids import (
    REMEMBERED_FOR,
    Claims,
    GivenId,
    MessageIds,
    NotedId,
    check_message_id,
    ids_in,
)
from goqueue.core.records.record import MESSAGE_ID_HEADER, Flag, encode_record
from goqueue.errors import InvalidMessage

SECOND = 1_000_000


def test_a_repeat_within_two_minutes_is_answered_with_the_first_offset() -> None:
    ids = MessageIds.rebuilt([NotedId(b"a", 7, 100)])
    assert ids.find(b"a", 100) == 7
    assert ids.find(b"a", 100 + REMEMBERED_FOR - 1) == 7
    assert ids.find(b"a", 100 + REMEMBERED_FOR) is None
    assert ids.find(b"b", 100) is None


def test_offset_zero_is_an_answer_too() -> None:
    ids = MessageIds.rebuilt([NotedId(b"a", 0, 0)])
    assert ids.find(b"a", 0) == 0
    assert Claims(ids, 0).claim(b"a", 5) == 0


def test_a_repeat_does_not_prolong_its_own_time() -> None:
    ids = MessageIds.rebuilt([NotedId(b"a", 7, 0), NotedId(b"a", 8, 60 * SECOND)])
    assert ids.find(b"a", 119 * SECOND) == 7
    assert ids.find(b"a", 120 * SECOND) is None


def test_after_two_minutes_the_id_may_be_used_again() -> None:
    ids = MessageIds.rebuilt([NotedId(b"a", 7, 0), NotedId(b"a", 8, REMEMBERED_FOR)])
    assert ids.find(b"a", REMEMBERED_FOR) == 8


def test_beyond_the_bound_the_oldest_is_forgotten() -> None:
    ids = MessageIds.rebuilt([NotedId(bytes([number]), number, 0) for number in range(1, 5)], ids_max=3)
    assert [note.offset for note in ids] == [2, 3, 4]
    assert ids.find(b"\x01", 0) is None


def test_what_is_too_old_takes_no_room() -> None:
    ids = MessageIds.rebuilt([NotedId(b"a", 1, 0), NotedId(b"b", 2, 1)])
    ids.forget(REMEMBERED_FOR)
    assert [note.message_id for note in ids] == [b"b"]
    ids.note(b"c", 3, REMEMBERED_FOR + 1)
    assert [note.message_id for note in ids] == [b"c"]


def test_a_cancelled_message_frees_its_id_and_no_other() -> None:
    ids = MessageIds()
    ids.note(b"delayed", 1, 0, is_delayed=True)
    ids.note(b"also", 2, 0, is_delayed=True)
    ids.note(b"plain", 3, 0)
    for offset in (1, 1, 3, 7):  # only a delayed message can be cancelled, and once
        ids.free(offset)
    assert [note.message_id for note in ids] == [b"also", b"plain"]
    ids.note(b"delayed", 9, 1)
    ids.free(1)
    assert ids.find(b"delayed", 1) == 9


def test_what_is_forgotten_takes_no_room_as_a_delayed_one_either() -> None:
    ids = MessageIds(ids_max=2)
    for number in range(5):
        ids.note(b"%d" % number, number, 0, is_delayed=True)
    assert len(ids._delayed) == 2
    ids.forget(REMEMBERED_FOR)
    assert not ids.has_delayed


def test_messages_of_one_append_can_repeat_each_other() -> None:
    ids = MessageIds.rebuilt([NotedId(b"a", 3, 0)])
    claims = Claims(ids, 1)
    offered = [(b"b", 10), (b"a", 11), (b"b", 11), (b"c", 11)]
    assert [claims.claim(*offer) for offer in offered] == [None, 3, 10, None]


def test_claims_that_come_to_nothing_leave_no_trace() -> None:
    ids = MessageIds()
    Claims(ids, 0).claim(b"a", 0)
    assert (len(ids), ids.find(b"a", 0), Claims(ids, 0).claim(b"a", 1)) == (0, None, None)


def test_the_repeats_of_a_batch_are_named_and_claim_nothing() -> None:
    ids = MessageIds.rebuilt([NotedId(b"a", 3, 0)])
    claims = Claims(ids, 1)
    claims.claim(b"b", 10)
    given = [GivenId(0, b"a"), GivenId(2, b"b"), GivenId(3, b"c"), GivenId(5, b"c"), GivenId(6, b"a")]
    assert claims.repeats(given) == {0: 3, 2: 10, 5: None, 6: 3}
    assert claims.repeats([GivenId(0, b"c")]) == {}


def test_ids_are_found_where_clients_put_them_and_nowhere_else() -> None:
    """What the broker moves keeps its headers, and is no repeat of itself."""
    named = {MESSAGE_ID_HEADER: b"a", "other": b"b"}
    fired = encode_record(3, 0, b"v", headers=named | {"goqueue-delayed-from": b"7"}, flags=Flag.FIRED)
    body = b"".join(
        [
            encode_record(0, 0, b"v", headers={"other": b"b"}),
            encode_record(1, 0, b"v", key=b"key", headers=named, due=5),
            encode_record(2, 0, b"goqueue-message-id"),
            fired,
            encode_record(9, 0, b"", headers={MESSAGE_ID_HEADER: b"c"}, flags=Flag.TOMBSTONE),
        ]
    )
    assert ids_in(body, 5) == [GivenId(1, b"a", is_delayed=True), GivenId(9, b"c")]


@pytest.mark.parametrize("message_id", [b"", bytes(129), "text", None, bytearray(b"a")])
def test_an_id_that_cannot_be_is_refused_by_name(message_id: object) -> None:
    """G14."""
    with pytest.raises(InvalidMessage, match="message id"):
        check_message_id(message_id)


@pytest.mark.parametrize("size", [1, 128])
def test_ids_have_1_to_128_bytes(size: int) -> None:
    assert check_message_id(bytes(size)) == bytes(size)


steps = st.lists(
    st.tuples(st.integers(0, 50 * SECOND), st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), st.booleans()),
    max_size=40,
)


@given(steps, st.integers(1, 4), st.integers(0, 40))
def test_after_a_restart_a_partition_answers_as_it_would_have(
    steps: list[tuple[int, bytes, bool]], ids_max: int, restart: int
) -> None:
    """Against a list of all that was appended; the log is read again at some step."""
    now, log, ids = 0, list[NotedId](), MessageIds(ids_max)
    for number, (pause, message_id, tidy) in enumerate(steps):
        now += pause
        if number == restart:
            ids = MessageIds.rebuilt(log, ids_max)
        if tidy:
            ids.forget(now)
        recent = [note for note in log[-ids_max:] if now - note.append_time < REMEMBERED_FOR]
        first = next((note.offset for note in recent if note.message_id == message_id), None)
        assert ids.find(message_id, now) == Claims(ids, now).claim(message_id, len(log)) == first
        if first is None:
            log.append(NotedId(message_id, len(log), now))
            ids.note(*log[-1])
        assert len(ids) <= ids_max
