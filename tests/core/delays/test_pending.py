"""What records say about delayed messages, and what follows from it (G8)."""

from collections.abc import Callable
from struct import pack
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.delays.events import (
    CANCEL,
    DELAYED_FROM_HEADER,
    MOVE,
    Cancelled,
    DelayedRecord,
    DelayEvent,
    Fired,
    Lapsed,
    Moved,
    cancel_batch,
    delay_events,
    move_batch,
)
from goqueue.core.delays.pending import FINISHED_MAX, DelayChange, Delays, DelayState
from goqueue.core.offsetset import OffsetSet
from goqueue.core.records.batch import Attribute, Batch, accept, compress
from goqueue.core.records.record import (
    DELAY_BIT,
    EXPIRES_AT,
    EXPIRES_AT_HEADER,
    FLAGS_FROM_BROKER,
    Flag,
    encode_record,
)

TIME = 5_000


def events_of(batch: Batch, base: int = 10) -> list[DelayEvent]:
    return list(delay_events(batch.attributes, base, TIME, batch.record_count, batch.body))


def original(number: int, due: int, **given: object) -> bytes:
    return encode_record(number, 1, b"v", due=due, **given)  # type: ignore[arg-type]


def control(key: bytes, value: bytes) -> Batch:
    record = encode_record(0, 1, value, key=key, flags=Flag.CONTROL)
    return accept(record, 1, attributes=int(Attribute.CONTROL), allowed_flags=FLAGS_FROM_BROKER)


# Events


def test_an_original_says_when_it_is_due_or_how_long_after_it_was_written() -> None:
    records = [original(0, 7_000), encode_record(1, 1, b"plain"), original(2, DELAY_BIT | 300, key=b"k")]
    assert events_of(accept(b"".join(records), 3)) == [
        DelayedRecord(10, 10, 7_000),
        DelayedRecord(12, 12, TIME + 300),
    ]


def test_a_compressed_batch_says_the_same() -> None:
    records = b"".join([original(number, 7_000 + number) for number in range(50)])
    packed = accept(compress(records), 50, attributes=int(Attribute.ZSTD))
    assert events_of(packed) == events_of(accept(records, 50))
    assert len(events_of(packed)) == 50


def test_a_batch_without_delays_says_nothing_and_is_not_looked_at() -> None:
    batch = accept(encode_record(0, 1, b"v"), 1)
    assert list(delay_events(batch.attributes, 0, TIME, 1, b"not a body")) == []


def test_control_records_say_what_they_are_about() -> None:
    assert events_of(cancel_batch(3, now=1)) == [Cancelled(3, 10, TIME)]
    assert events_of(move_batch(3, 900, now=1)) == [Moved(3, 10, 900)]


@pytest.mark.parametrize(
    "batch",
    [
        control(b"transaction-commit", b"x" * 16),
        control(b"", b""),
        control(CANCEL, b""),
        control(CANCEL, b"1234567"),
        control(CANCEL, b"123456789"),
        control(MOVE, pack(">Q", 3)),
        control(MOVE, pack(">QQ", 3, 4) + b"more"),
    ],
    ids=["unknown", "empty", "no offset", "half an offset", "too long", "no time", "longer"],
)
def test_control_records_of_another_form_say_nothing(batch: Batch) -> None:
    assert events_of(batch) == []


@pytest.mark.parametrize("origin", [b"", b"abc", b"-5", b"1.5", b" 1", b"\xff", None])
def test_a_fired_record_without_a_number_says_nothing(origin: bytes | None) -> None:
    headers = {"a": b"1"} if origin is None else {DELAYED_FROM_HEADER: origin}
    record = encode_record(0, 1, b"v", headers=headers, flags=Flag.FIRED)
    assert events_of(accept(record, 1, allowed_flags=FLAGS_FROM_BROKER)) == []


def test_a_fired_record_had_expired_if_the_log_wrote_it_no_sooner_than_that() -> None:
    def fired(expires_at: int) -> DelayEvent:
        headers = {DELAYED_FROM_HEADER: b"3", EXPIRES_AT_HEADER: EXPIRES_AT.pack(expires_at)}
        record = encode_record(0, 1, b"v", headers=headers, flags=Flag.FIRED)
        [event] = events_of(accept(record, 1, allowed_flags=FLAGS_FROM_BROKER))
        return event

    assert [fired(at) for at in (TIME - 1, TIME)] == [Lapsed(3, 10, TIME)] * 2
    assert fired(TIME + 1) == Fired(3, 10, TIME)


# What follows


def test_the_first_that_ends_a_delay_ends_it() -> None:
    delays = Delays()
    assert delays.apply(DelayedRecord(1, 1, 50)) == DelayChange(DelayState.PENDING, 1, 50, 1)
    assert delays.apply(Moved(1, 2, 60)) == DelayChange(DelayState.PENDING, 1, 60, 2)
    assert delays.apply(Cancelled(1, 3, 7)) == DelayChange(DelayState.CANCELLED, 1, 7, 3)
    assert delays.apply(Fired(1, 4, 8)) is None
    assert delays.apply(Moved(1, 5, 9)) is None
    assert delays.was_cancelled(1)
    assert not delays.was_cancelled(2)
    assert list(delays.finished.values()) == [DelayChange(DelayState.CANCELLED, 1, 7, 3)]


def test_what_the_log_lost_at_its_beginning_has_expired() -> None:
    delays = Delays()
    for offset in (1, 2, 5):
        delays.apply(DelayedRecord(offset, offset, 50))
    gone, remembered = delays.removed_below(5, now=9, at=6)
    assert gone == OffsetSet([(1, 2)])
    assert [change.offset for change in remembered] == [1, 2]
    assert delays.removed_below(5, now=9, at=6) == (OffsetSet(), [])
    assert delays.pending_from(0, 10) == [5]
    assert [change.state for change in delays.finished_from(0, 10)] == [DelayState.EXPIRED] * 2


def test_the_newest_of_those_that_ended_are_remembered() -> None:
    delays = Delays()
    for offset in range(FINISHED_MAX + 5):
        delays.remember(DelayChange(DelayState.DELIVERED, offset, 0, offset))
    assert len(delays.finished) == FINISHED_MAX
    assert delays.finished_from(0, 1)[0].offset == 5


def test_originals_and_what_is_said_of_them_stay_hidden_whatever_became_of_them() -> None:
    """G3: nobody is handed them, so no lag counts them; the message that fired is one."""
    delays = Delays()
    delays.apply_all(
        [DelayedRecord(1, 1, 50), DelayedRecord(2, 2, 50), DelayedRecord(3, 3, 50), Fired(1, 4, 9), Moved(2, 5, 60)]
    )
    delays.apply_all([Cancelled(2, 6, 9), Cancelled(2, 7, 9)])
    assert delays.hidden == OffsetSet([(1, 3), (5, 7)])
    delays.removed_below(3, now=9, at=7)
    assert delays.hidden == OffsetSet([(3, 3), (5, 7)])


Kind: TypeAlias = Callable[[int, int, int], DelayEvent]
ENDS: dict[str, tuple[Kind, str]] = {
    "c": (Cancelled, "CANCELLED"),
    "f": (Fired, "DELIVERED"),
    "l": (Lapsed, "EXPIRED"),
}
Events = st.lists(st.tuples(st.sampled_from("dmcfl"), st.integers(0, 8), st.integers(0, 100)), max_size=40)


@given(Events)
def test_it_says_what_a_simple_model_says(said: list[tuple[str, int, int]]) -> None:
    delays, dues, ended = Delays(), dict[int, int](), dict[int, str]()
    for at, (kind, offset, time) in enumerate(said):
        if kind == "d":
            if offset in dues or offset in ended:
                continue  # an offset is given once
            dues[offset] = time
            delays.apply(DelayedRecord(offset, at, time))
        elif kind == "m":
            moved = delays.apply(Moved(offset, at, time))
            assert (moved is not None) == (offset in dues)
        else:
            event, state = ENDS[kind]
            change = delays.apply(event(offset, at, time))
            assert (change is not None) == (offset in dues)
            if dues.pop(offset, None) is not None:
                ended[offset] = state
    assert delays.pending_from(0, 100) == sorted(dues)
    assert delays.pending_from(3, 2) == [offset for offset in sorted(dues) if offset >= 3][:2]
    assert {offset: change.state.name for offset, change in delays.finished.items()} == ended


@given(Events)
def test_many_at_once_say_what_they_say_one_by_one(said: list[tuple[str, int, int]]) -> None:
    kinds: dict[str, Kind] = {"d": DelayedRecord, "m": Moved, "c": Cancelled, "f": Fired, "l": Lapsed}
    events: list[DelayEvent] = [kinds[kind](offset, at, time) for at, (kind, offset, time) in enumerate(said)]
    together, apart = Delays(), Delays()
    changes = [change for event in events if (change := apart.apply(event)) is not None]
    assert together.apply_all(events) == changes
    assert together.pending == apart.pending
    assert together.hidden == apart.hidden
    assert list(together.finished.items()) == list(apart.finished.items())


def test_of_many_that_fire_together_the_newest_are_remembered() -> None:
    delays = Delays()
    count = FINISHED_MAX + 5
    delays.apply_all([DelayedRecord(offset, offset, 7) for offset in range(count)])
    delays.apply_all([Fired(offset, count + offset, 8) for offset in range(count)])
    assert len(delays.finished) == FINISHED_MAX
    assert delays.finished_from(0, 1)[0].offset == 5
