"""A consumer of a group: `async with client.consumer("orders", group="billing") as consumer`.

It is a member of its group from entering to leaving; its tasks run beside the program. This is the life that both
modes share, and the surface that programs see. `QueueConsumer` (queue.py) leases messages and settles them one by
one; `StreamConsumer` (client/streaming/consumer.py) reads partitions in order and commits offsets. A call that is
for the other mode raises `GroupConflict`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeAlias

import trio

from goqueue.client.consuming.delivery import DeliveredMessage, LeasedMessage
from goqueue.client.consuming.membership import Membership
from goqueue.client.consuming.options import VISIBILITY_SECONDS_MIN, ConsumerOptions, Start, check_seconds
from goqueue.client.consuming.receiving import MESSAGES_MAX
from goqueue.client.link.arguments import check_seconds_between, check_whole
from goqueue.client.link.caller import Caller
from goqueue.errors import Closed, GoQueueError, GroupConflict
from goqueue.types import Seconds

ITERATION_AHEAD = 500
"""Maximum number of messages that an iteration prefetches."""
GRACE_SECONDS = 0.5
"""Allowance for the broker's answer, which comes when the time of a receive is over."""
LEAVE_SECONDS_MAX, LEAVE_SECONDS_MAX_WITHOUT_LINK = 5.0, 1.0

Settled: TypeAlias = LeasedMessage | Sequence[LeasedMessage]
"""What can be settled: one message or many."""

_OF_QUEUES = 'is for mode "queue"; in mode "stream" commit what is done: `await consumer.commit(message)`'
_OF_STREAMS = 'is for mode "stream"; in mode "queue" settle messages by ack, nack, reject or release'


class ConsumerState(Enum):
    NEW = "new"
    OPEN = "open"
    CLOSED = "closed"


class Consumer(ABC):
    """Made by `client.consumer`; enter it to receive."""

    _membership: Membership

    def __init__(self, client: Caller, options: ConsumerOptions) -> None:
        self._client = client
        self._options = options
        self._codec = options.codec
        self._state = ConsumerState.NEW
        self._scope = trio.CancelScope()
        self._is_patient = False

    def be_patient(self, defaults: Mapping[str, Any] = MappingProxyType({})) -> None:
        """For a worker: entering does not wait for the broker.

        The first receive waits for it instead, and raises what stands against joining. A group that it makes begins
        with `defaults`.
        """
        self._is_patient = True
        self._membership.begin_with(dict(defaults))

    @property
    def member_id(self) -> str:
        """The name under which the group knows it."""
        return self._membership.member

    async def __aenter__(self) -> Self:
        if self._state is not ConsumerState.NEW:
            raise Closed("a consumer is entered once; make another by client.consumer")
        self._state = ConsumerState.OPEN
        try:
            if not self._is_patient:
                await self._membership.join()
        except GoQueueError:
            self._state = ConsumerState.CLOSED
            raise
        except BaseException:  # cancelled, and perhaps a member already
            await self._leave()
            raise
        self._client.spawn(self._run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()
        if error is None:
            self._check_at_end()

    def _check_at_end(self) -> None:  # noqa: B027  # a stream has acks of nothing
        """Raise an error that the program has not heard of."""

    @abstractmethod
    async def _run(self) -> None:
        """The tasks beside the program, until the scope is cancelled."""

    @abstractmethod
    async def _leave(self) -> None:
        """Close, give back or commit what is open, and leave the group; not for long."""

    def _leaving(self) -> trio.CancelScope:
        """Bounds the farewell: what could not be said by then, the broker finds out by itself."""
        patience = LEAVE_SECONDS_MAX if self._client.link is not None else LEAVE_SECONDS_MAX_WITHOUT_LINK
        return trio.CancelScope(shield=True, deadline=trio.current_time() + patience)

    def _check_open(self) -> None:
        if self._state is ConsumerState.NEW:
            raise Closed("the consumer is not open yet; enter it by `async with`")
        if self._state is ConsumerState.CLOSED:
            raise self._closed()

    @abstractmethod
    def _closed(self) -> Closed:
        """What a call on a closed consumer raises."""

    # Receiving

    @abstractmethod
    async def receive(
        self, max_messages: int = 500, timeout: Seconds = 30, *, visibility_timeout: Seconds | None = None
    ) -> list[DeliveredMessage]:
        """What is there, at least one message; [] after `timeout` seconds. Cancelling it loses nothing."""

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> DeliveredMessage: ...

    @abstractmethod
    async def next_batch(self) -> list[DeliveredMessage]:
        """What an iteration would hand out one by one, for a surface that does so itself."""

    @abstractmethod
    def take_back(self, messages: Sequence[LeasedMessage]) -> None:
        """They reached nobody, and wait for the next call."""

    @property
    @abstractmethod
    def extends_at_work(self) -> bool:
        """Whether the message that the body of a loop works on keeps its lease."""

    # Settling

    async def ack(self, messages: Settled, *, wait: bool | None = None) -> None:  # noqa: ARG002
        """They are done. `StaleReceipt` names those whose leases had ended; the others are settled.

        With `wait=False` the ack leaves at once and is not waited for: an error goes to `on_ack_error`, else to the
        next call or the end of the consumer. Without `wait` the consumer's `confirm_acks` decides.
        """
        raise self._other_mode("ack", _OF_QUEUES)

    async def nack(self, messages: Settled, *, delay: Seconds | None = None, reason: str = "") -> None:  # noqa: ARG002
        """They failed: try again after `delay` seconds, else after the backoff (1 s, 2 s … 60 s, or as `retry`)."""
        raise self._other_mode("nack", _OF_QUEUES)

    async def reject(self, messages: Settled, reason: str = "") -> None:  # noqa: ARG002
        """They can never succeed: to the dead-letter topic, now."""
        raise self._other_mode("reject", _OF_QUEUES)

    async def fail(self, messages: Settled, error: BaseException) -> None:  # noqa: ARG002
        """They failed with this error: nack with it as the reason, or reject if `never_for` of `retry` names it."""
        raise self._other_mode("fail", _OF_QUEUES)

    async def release(self, messages: Settled) -> None:  # noqa: ARG002
        """Give them back at once; this delivery does not count."""
        raise self._other_mode("release", _OF_QUEUES)

    async def extend(self, messages: Settled, seconds: Seconds) -> None:  # noqa: ARG002
        """Their leases end so many seconds from now."""
        raise self._other_mode("extend", _OF_QUEUES)

    # Streams

    async def commit(self, message: LeasedMessage | None = None) -> None:  # noqa: ARG002
        """Stream mode: all that was handed out so far is done, or up to this message of its partition."""
        raise self._other_mode("commit", _OF_STREAMS)

    async def seek(self, partition: int, to: Start, *, topic: str | None = None) -> None:  # noqa: ARG002
        """Stream mode: go on at an offset, `earliest`, `latest` or a time."""
        raise self._other_mode("seek", _OF_STREAMS)

    async def pause(self, partition: int | None = None, *, topic: str | None = None) -> None:  # noqa: ARG002
        """Stream mode: hand out nothing of this partition, or of all that it has, until `resume`."""
        raise self._other_mode("pause", _OF_STREAMS)

    async def resume(self, partition: int | None = None, *, topic: str | None = None) -> None:  # noqa: ARG002
        """Stream mode: hand out messages of this partition again, or of all that it has."""
        raise self._other_mode("resume", _OF_STREAMS)

    def _other_mode(self, name: str, meant: str) -> GroupConflict:
        self._check_open()
        return GroupConflict(f"{name} {meant}", settings=["mode"])


def check_receive(max_messages: object, timeout: object, visibility_timeout: object) -> tuple[float, float | None]:
    """The two times in seconds."""
    check_whole("max_messages", max_messages, 1, MESSAGES_MAX)
    seconds = check_seconds_between("timeout", timeout, 0.0, math.inf)
    if visibility_timeout is None:
        return seconds, None
    return seconds, check_seconds("visibility_timeout", visibility_timeout, VISIBILITY_SECONDS_MIN)
