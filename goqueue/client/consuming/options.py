"""The options of a consumer, checked before anything is sent.

Some are settings that the whole group shares (`mode`, `shared`, `key_order`, `lanes`, `max_deliveries`, `assignor`,
`rebalance`, and those in `retry`), others belong to this consumer alone. Only settings that were given are sent:
for the others those of the group hold.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime
from reprlib import repr as shortened
from typing import Any, TypeAlias

from goqueue.client.consuming.retry import Retry
from goqueue.client.link.arguments import check_flag, check_offset, check_seconds_between, check_whole, refusal
from goqueue.client.link.moments import UNREADABLE, clamped_microseconds_of
from goqueue.client.schemas.codec import Codec, codec_of
from goqueue.client.schemas.source import AnySchema
from goqueue.core.groups.member import check_member_id
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.start import last_count
from goqueue.core.groups.subscription import Subscription
from goqueue.core.names import check_group_name
from goqueue.errors import GoQueueError, InvalidName
from goqueue.types import Offset, Seconds

Start: TypeAlias = Offset | float | str | datetime
OnPartitions: TypeAlias = Callable[[list[tuple[str, int]]], object]
"""Called with partitions, each as its topic and its number. Its result is awaited if it is awaitable."""

OnAckError: TypeAlias = Callable[[GoQueueError], object]
"""Called with the error of an ack that is not waited for. Its result is awaited if it is awaitable."""

IN_FLIGHT_MAX = 4_000
IN_FLIGHT_BYTES_MAX = 16 * 1024 * 1024
VISIBILITY_SECONDS = 30.0
VISIBILITY_SECONDS_MIN, VISIBILITY_SECONDS_MAX = 0.05, 12 * 3600.0


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The options of `client.consumer`, on every surface."""

    topics: str | Sequence[str]
    _: KW_ONLY
    group: str
    mode: str = "queue"
    shared: bool | None = None
    key_order: bool | None = None
    lanes: str | None = None
    max_deliveries: int | None = None
    assignor: str | None = None
    rebalance: str | None = None
    retry: Retry | None = None
    start: Start = "earliest"
    max_in_flight: int = IN_FLIGHT_MAX
    max_in_flight_bytes: int = IN_FLIGHT_BYTES_MAX
    visibility_timeout: Seconds = VISIBILITY_SECONDS
    auto_extend: bool | None = None
    member_id: str | None = None
    confirm_acks: bool = True
    on_ack_error: OnAckError | None = None
    auto_commit: bool = True
    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    schema: AnySchema = None
    on_misfit: str | None = None

    def __post_init__(self) -> None:
        check_group_name(self.group)
        _check_retry(self.retry, self.max_deliveries)
        GroupSettings.from_plain(self.settings)
        check_whole("max_in_flight", self.max_in_flight, 1)
        check_whole("max_in_flight_bytes", self.max_in_flight_bytes, 1)
        assert self.visibility_seconds
        if self.auto_extend is not None:
            check_flag("auto_extend", self.auto_extend)
        if self.member_id is not None:
            _check_member_id(self.member_id)
        check_flag("confirm_acks", self.confirm_acks)
        check_flag("auto_commit", self.auto_commit)
        for name in CALLBACKS:
            _check_callback(name, getattr(self, name))
        _check_of_mode(self)
        _check_misfit(self)
        assert self.codec is None or self.codec.name

    @property
    def codec(self) -> Codec | None:
        """What makes the bodies of messages; None without a schema."""
        return None if self.schema is None else codec_of(self.schema)

    @property
    def misfits(self) -> str:
        """What becomes of a message whose value does not fit the schema."""
        return self.on_misfit or MISFITS[self.mode][0]

    @property
    def visibility_seconds(self) -> float:
        return check_seconds("visibility_timeout", self.visibility_timeout, VISIBILITY_SECONDS_MIN)

    @property
    def subscription(self) -> tuple[str, ...]:
        """The subscription for the wire: one pattern, or names."""
        asked: object = self.topics
        if isinstance(asked, Iterable) and not isinstance(asked, str | bytes):
            asked = list(asked)
        plain = Subscription.to(asked).to_plain()
        return (plain,) if isinstance(plain, str) else tuple(plain)

    @property
    def settings(self) -> dict[str, Any]:
        """The group settings that were given."""
        asked = {
            "shared": self.shared,
            "key_order": self.key_order,
            "lanes": self.lanes,
            "max_deliveries": self.max_deliveries,
            "assignor": self.assignor,
            "rebalance": self.rebalance,
        }
        retry = {} if self.retry is None else self.retry.settings
        return {"mode": self.mode} | {name: value for name, value in asked.items() if value is not None} | retry


CALLBACKS = {
    "on_assigned": "a list of partitions",
    "on_revoked": "a list of partitions",
    "on_ack_error": "an error",
}
"""By name, the argument of each."""
OF_QUEUES = (
    "visibility_timeout",
    "auto_extend",
    "max_deliveries",
    "retry",
    "max_in_flight",
    "lanes",
    "confirm_acks",
    "on_ack_error",
)
OF_STREAMS = ("auto_commit", "on_assigned", "on_revoked")
REJECT, RAISE, SKIP = "reject", "raise", "skip"
MISFITS = {"queue": (REJECT, RAISE), "stream": (RAISE, SKIP)}
"""What may become of a message that does not fit, by mode, the default first. A stream has no dead letters."""
_DEFAULTS = {each.name: each.default for each in fields(ConsumerOptions)}


def check_seconds(name: str, seconds: object, least: float = 0.0) -> float:
    return check_seconds_between(name, seconds, least, VISIBILITY_SECONDS_MAX)


def _check_member_id(member_id: object) -> None:
    if not isinstance(member_id, str):
        raise InvalidName(f"a member id is text, not {type(member_id).__name__}; leave it out to have one drawn")
    check_member_id(member_id)


def _check_retry(retry: object, max_deliveries: object) -> None:
    if retry is not None and not isinstance(retry, Retry):
        raise refusal(f"retry={shortened(retry)} is no goqueue.Retry; give one, as Retry(attempts=40, first=1)")
    if retry is not None and retry.attempts is not None and max_deliveries is not None:
        raise refusal("retry.attempts and max_deliveries are the same setting of the group; give one of them")


def _check_callback(name: str, callback: object) -> None:
    if callback is not None and not callable(callback):
        raise refusal(f"{name}={shortened(callback)} cannot be called; give a function of {CALLBACKS[name]}")


def _check_of_mode(options: ConsumerOptions) -> None:
    """An option without effect in this mode is a mistake."""
    for name in OF_QUEUES if options.mode == "stream" else OF_STREAMS:
        if getattr(options, name) != _DEFAULTS[name]:
            other = "queue" if options.mode == "stream" else "stream"
            raise refusal(f'{name} is for mode "{other}" alone; leave it out, or use that mode')


def _check_misfit(options: ConsumerOptions) -> None:
    if options.on_misfit is None:
        return
    allowed = MISFITS[options.mode]
    if options.schema is None:
        raise refusal("on_misfit is for a consumer with a schema; give schema=, or leave it out")
    if options.on_misfit not in allowed:
        names = " or ".join(f'"{each}"' for each in allowed)
        raise refusal(f'on_misfit={shortened(options.on_misfit)} must be {names} in mode "{options.mode}"')


def start_text(start: Start) -> str:
    """The start for the wire: `earliest`, `latest`, `last:N`, `offset:N` or `time:MICROSECONDS`."""
    if start in ("earliest", "latest") or last_count(start) is not None:
        return str(start)
    if type(start) is int:
        return f"offset:{check_offset('start', start)}"
    return f"time:{_microseconds(start)}"


def _microseconds(time: Start) -> int:
    try:
        if isinstance(time, int):
            raise TypeError(f"it is of type {type(time).__name__}")
        return clamped_microseconds_of(time)
    except UNREADABLE as error:
        raise refusal(
            f"start={shortened(time)} is neither an offset, 'earliest', 'latest', 'last:N' nor a time ({error})"
        ) from None
