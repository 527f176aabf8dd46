"""Errors across the wire: from an exception to an `Error` body, and back to the same class.

The code is what travels; the table of classes is read from the class tree, so that a new error needs no entry here.
Nothing that the other end says can make the way back fail: constructors are not called with what it sent.
"""

from collections.abc import Iterator
from inspect import signature

from goqueue.errors import (
    ActorDied,
    BadRecord,
    BatchRefused,
    DuplicateMessage,
    GoQueueError,
    InvalidMessage,
    Unavailable,
)
from goqueue.net.wire.errors import ConnectionLost, GoingAway
from goqueue.net.wire.fields import INTEGER_MAX, INTEGER_MIN, LIST_COUNT_MAX, NAME_SIZE_MAX, PROSE_SIZE_MAX, SCALARS
from goqueue.net.wire.messages import BadRecordNote, Error
from goqueue.types import Scalar

# With these an error stays well below the size of a message, whatever its author put into it.
DETAILS_MAX = 64
NOTE_SIZE_MAX = 256

PATIENCE_SECONDS = 30.0
"""How long the broker, or a part of it, may be away before a call fails."""


def _tree(root: type[GoQueueError]) -> Iterator[type[GoQueueError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


CLASSES: dict[str, type[GoQueueError]] = {each.code: each for each in reversed(list(_tree(GoQueueError)))}
"""By code; where a class inherits its code, the one that defined it stands here."""


def error_body(error: GoQueueError) -> Error:
    """What the other end shall know. Details that are no plain values travel as text."""
    details = {**error.details, **_own_attributes(error)}
    plain = {str(name)[:NAME_SIZE_MAX]: _plain(value) for name, value in list(details.items())[:DETAILS_MAX]}
    return Error(error.code, error.message[:PROSE_SIZE_MAX], error.retryable, plain, _record_notes(error))


def error_of(body: Error) -> GoQueueError:
    """The exception that the other end had. An unknown code is a GoQueueError that keeps it."""
    kind = CLASSES.get(body.code, GoQueueError)
    error = kind.__new__(kind)
    GoQueueError.__init__(error, body.message)
    error.details = dict(body.details)
    _restore_attributes(error)
    if isinstance(error, BatchRefused):
        error.records = tuple(BadRecord(note.record, _record_error(note)) for note in body.records)
    # On the object, over the class: the end that failed knows best whether to try again.
    vars(error).update(code=body.code, retryable=body.retryable)
    return error


def final(error: GoQueueError, seconds: float = PATIENCE_SECONDS) -> GoQueueError:
    """What a program hears when asking again is over: our own words for troubles of wire and broker."""
    if isinstance(error, ConnectionLost | GoingAway | ActorDied):
        return Unavailable(f"the broker could not answer within {seconds:g} s: {error.message}")
    return error


def _parameters(error: GoQueueError) -> tuple[str, ...]:
    """The arguments of a class that has a constructor of its own; its attributes bear their names."""
    if type(error).__init__ is GoQueueError.__init__:
        return ()
    parameters = signature(type(error)).parameters
    return tuple(name for name in parameters if name not in ("message", "records", "details"))


def _own_attributes(error: GoQueueError) -> dict[str, object]:
    mine = vars(error)
    return {name: mine[name] for name in _parameters(error) if name in mine}


def _restore_attributes(error: GoQueueError) -> None:
    for name in _parameters(error):
        if name in error.details:
            setattr(error, name, error.details.pop(name))


def _record_notes(error: GoQueueError) -> tuple[BadRecordNote, ...]:
    if not isinstance(error, BatchRefused):
        return ()
    return tuple(_record_note(bad.index, bad.error) for bad in error.records[:LIST_COUNT_MAX])


def _record_note(index: int, error: InvalidMessage) -> BadRecordNote:
    offset = error.offset if isinstance(error, DuplicateMessage) else None
    return BadRecordNote(index, error.code, error.message[:NOTE_SIZE_MAX], offset)


def _record_error(note: BadRecordNote) -> InvalidMessage:
    known = CLASSES.get(note.code)
    kind = known if known is not None and issubclass(known, InvalidMessage) else InvalidMessage
    error = kind.__new__(kind)
    GoQueueError.__init__(error, note.message)
    if isinstance(error, DuplicateMessage) and note.offset is not None:
        error.details["offset"] = note.offset
    vars(error).update(code=note.code)
    return error


def _plain(value: object) -> Scalar:
    if type(value) in SCALARS and not _is_large(value):
        return value  # type: ignore[return-value]  # SCALARS are the types of Scalar
    return str(value)[:PROSE_SIZE_MAX]


def _is_large(value: object) -> bool:
    if isinstance(value, int):
        return not INTEGER_MIN <= value <= INTEGER_MAX
    return isinstance(value, str | bytes) and len(value) > PROSE_SIZE_MAX
