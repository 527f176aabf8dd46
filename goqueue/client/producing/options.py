"""The options of a message: declared once, for `publish` and every way to send.

`SendOptions` is their types, for editors and type checkers. `send_options` is their names, defaults and meaning.
`takes_send_options` shows them in the signature of each method that passes them on.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from reprlib import repr as shortened
from typing import Any, NamedTuple, TypedDict, TypeVar

from goqueue.client.link.arguments import TEXT_NEEDED, is_text
from goqueue.client.link.moments import Moment, due_of
from goqueue.client.producing.content import priority_of
from goqueue.core.log.messageids import check_message_id
from goqueue.core.records.record import TIMESTAMP_MAX
from goqueue.core.sending.chunk import Content
from goqueue.errors import InvalidMessage
from goqueue.types import Acks, Microseconds, Priority, Seconds, seconds_of

MethodT = TypeVar("MethodT", bound=Callable[..., Any])


class SendOptions(TypedDict, total=False):
    headers: Mapping[str, bytes] | None
    priority: Priority | int | str
    partition: int | None
    delay: Seconds | None
    deliver_at: Moment | None
    ttl: Seconds | None
    message_id: bytes | str | None


class ProducerOptions(TypedDict, total=False):
    """The options of a producer, for editors and type checkers; `Producer` has their defaults."""

    acks: Acks | int | str
    linger_ms: float
    batch_messages: int
    batch_bytes: int
    buffer_messages: int
    delivery_timeout: Seconds
    idempotent: bool


class SendPlan(NamedTuple):
    """What the options of a call mean."""

    content: Content
    partition: int | None
    name: bytes | None
    """The message id."""


def send_options(
    now: Microseconds,
    *,
    headers: Mapping[str, bytes] | None = None,
    priority: Priority | int | str = Priority.NORMAL,
    partition: int | None = None,
    delay: Seconds | None = None,
    deliver_at: Moment | None = None,
    ttl: Seconds | None = None,
    message_id: bytes | str | None = None,
) -> SendPlan:
    expires_at = None if ttl is None else _expiry(now, ttl)
    content = Content(now, headers or None, priority_of(priority), expires_at, due_of(delay, deliver_at))
    return SendPlan(content, partition, name_of(message_id))


def takes_send_options(method: MethodT) -> MethodT:
    """Programs that look at the method's signature see each option, not `**options`."""
    _now, *options = inspect.signature(send_options).parameters.values()
    signature = inspect.signature(method)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    method.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return method


def name_of(message_id: bytes | str | None) -> bytes | None:
    """A message's id in bytes, checked."""
    if message_id is None:
        return None
    if isinstance(message_id, str) and not is_text(message_id):
        raise InvalidMessage(f"message_id={shortened(message_id)} {TEXT_NEEDED}")
    return check_message_id(message_id.encode() if isinstance(message_id, str) else message_id)


def _expiry(now: Microseconds, ttl: Seconds) -> Microseconds:
    seconds = seconds_of(ttl)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise InvalidMessage(f"ttl={shortened(ttl)} is no time to live; give seconds above 0, or a timedelta")
    return min(now + max(1, round(seconds * 1_000_000)), TIMESTAMP_MAX)
