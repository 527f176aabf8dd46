"""Errors cross the wire as themselves."""

import msgpack
import pytest
from hypothesis import given

from goqueue.errors import (
    BadRecord,
    BatchRefused,
    CorruptMessage,
    DamagedData,
    DiskFull,
    DuplicateMessage,
    GoQueueError,
    InvalidMessage,
    OffsetOutOfRange,
    TooLarge,
)
from goqueue.net.wire.codec import decode, encode
from goqueue.net.wire.failures import CLASSES, error_body, error_of
from goqueue.net.wire.kinds import KINDS
from goqueue.net.wire.limits import FRAME_SIZE_MAX, MESSAGE_SIZE_MAX
from goqueue.net.wire.messages import BadRecordNote, Error
from tests.net.strategies import bodies_of


def sent(error: GoQueueError) -> GoQueueError:
    body = decode(encode(error_body(error), 1), FRAME_SIZE_MAX).body
    assert isinstance(body, Error)
    return error_of(body)


@pytest.mark.parametrize("kind", CLASSES.values(), ids=CLASSES)
def test_each_error_comes_back_as_its_class(kind: type[GoQueueError]) -> None:
    error = error_of(Error(kind.code, "why", kind.retryable, {"start": 3}))
    assert type(error) is kind
    assert (error.code, error.message, error.retryable, str(error)) == (kind.code, "why", kind.retryable, "why")
    assert error.details == {"start": 3}


def test_codes_are_told_apart() -> None:
    assert CLASSES["error"] is GoQueueError
    assert CLASSES["disk_full"] is DiskFull
    assert all(kind.code == code for code, kind in CLASSES.items())


def test_details_come_along() -> None:
    error = sent(OffsetOutOfRange("offset 9 is beyond the end", start=3, end=7))
    assert isinstance(error, OffsetOutOfRange)
    assert error.details == {"start": 3, "end": 7}


def test_an_error_with_attributes_of_its_own_keeps_them() -> None:
    before = DamagedData("orders/0", 10, 20, 3, 5)
    error = sent(before)
    assert isinstance(error, DamagedData)
    assert vars(error) == vars(before) | {"code": "damaged_data", "retryable": False}


def test_a_refused_batch_names_its_bad_records() -> None:
    error = sent(BatchRefused([BadRecord(3, TooLarge("key")), BadRecord(5, CorruptMessage("crc"))]))
    assert isinstance(error, BatchRefused)
    assert [(each.index, type(each.error), each.error.message) for each in error.records] == [
        (3, TooLarge, "key"),
        (5, CorruptMessage, "crc"),
    ]


def test_a_duplicate_is_told_with_the_offset_of_the_first() -> None:
    """Offset 0 is one too, and none is none."""
    offsets = [7, 0, 2**63 - 1]
    duplicates = [BadRecord(n, DuplicateMessage("why", offset=offset)) for n, offset in enumerate(offsets)]
    error = sent(BatchRefused([*duplicates, BadRecord(9, DuplicateMessage("send it later"))]))
    assert isinstance(error, BatchRefused)
    found = [bad.error for bad in error.records]
    assert all(isinstance(each, DuplicateMessage) and not each.retryable for each in found)
    assert [each.offset for each in found if isinstance(each, DuplicateMessage)] == [7, 0, 2**63 - 1, None]
    assert [each.code for each in found] == ["duplicate_message"] * 4


def test_a_duplicate_alone_keeps_its_offset_too() -> None:
    error = sent(DuplicateMessage("why", offset=7))
    assert isinstance(error, DuplicateMessage)
    assert (error.offset, error.details) == (7, {"offset": 7})


def test_an_offset_that_is_none_is_not_believed() -> None:
    error = error_of(Error("duplicate_message", "why", False, {"offset": "seven"}))
    assert isinstance(error, DuplicateMessage)
    assert error.offset is None


def test_an_end_that_knows_no_offsets_in_notes_is_understood() -> None:
    """Arrays grow at their end: an older broker's note has three fields."""
    note = [3, "duplicate_message", "why"]
    frame = msgpack.packb([KINDS[Error], 1, ["batch_refused", "why", False, {}, [note]]])
    body = decode(frame, FRAME_SIZE_MAX).body
    assert isinstance(body, Error)
    assert body.records == (BadRecordNote(3, "duplicate_message", "why", None),)


def test_an_unknown_code_is_kept() -> None:
    error = error_of(Error("from_the_future", "why", True, {"a": b"b"}))
    assert type(error) is GoQueueError
    assert (error.code, error.retryable, error.details) == ("from_the_future", True, {"a": b"b"})
    assert (GoQueueError.code, GoQueueError.retryable) == ("error", False)
    assert error_body(error).code == "from_the_future"


def test_a_bad_record_of_an_unknown_kind_is_an_invalid_message() -> None:
    notes = (BadRecordNote(0, "from_the_future", "why"), BadRecordNote(1, "disk_full", "no record's fault"))
    error = error_of(Error("batch_refused", "why", False, {}, notes))
    assert isinstance(error, BatchRefused)
    assert [(type(each.error), each.error.code) for each in error.records] == [
        (InvalidMessage, "from_the_future"),
        (InvalidMessage, "disk_full"),
    ]


def test_the_end_that_failed_knows_whether_to_try_again() -> None:
    assert error_of(Error("offset_out_of_range", "why", True, {})).retryable


def test_details_that_msgpack_does_not_know_travel_as_text() -> None:
    assert sent(GoQueueError("why", path=[1, 2], large=2**64)).details == {"path": "[1, 2]", "large": str(2**64)}


def test_an_error_of_any_size_fits_into_a_message() -> None:
    details = {f"{n}" * 300: "😀" * 100_000 for n in range(100)}
    many = BatchRefused([BadRecord(n, TooLarge("😀" * 10_000)) for n in range(20_000)])
    many.details.update(details)
    body = error_body(many)
    message = encode(body, 1)
    assert len(message) < MESSAGE_SIZE_MAX
    assert decode(message, MESSAGE_SIZE_MAX).body == body


@given(bodies_of(Error))
def test_whatever_the_other_end_says_becomes_an_error(body: Error) -> None:
    for code in (body.code, "damaged_data", "batch_refused"):
        error = error_of(body._replace(code=code))
        assert (error.code, error.message, error.retryable) == (code, body.message, body.retryable)
        error_body(error)


def test_details_with_the_names_of_our_own_attributes_do_no_harm() -> None:
    error = error_of(Error("closed", "why", False, {"message": "other", "self": 1, "code": "x", "details": None}))
    assert (error.message, error.code, error.details["code"]) == ("why", "closed", "x")
    assert sent(error).message == "why"
