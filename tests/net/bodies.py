"""Requests of groups with what most tests do not care about filled in."""

from collections.abc import Sequence

from goqueue.net.wire.groups import (
    CommitOffsets,
    CommitPartition,
    DeliveryRun,
    DeliverySet,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Receive,
    ReceivePartition,
    SettleDelivery,
)
from goqueue.types import Scalar

INSTANCE = 1


def join(
    group: str,
    member: str,
    client: str,
    subscription: Sequence[str],
    settings: dict[str, Scalar],
    start: str = "earliest",
    session_timeout_ms: int = 30_000,
    is_static: bool = False,
    instance: int = INSTANCE,
) -> JoinGroup:
    return JoinGroup(
        group, member, client, tuple(subscription), settings, start, session_timeout_ms, is_static, instance
    )


def heartbeat(group: str, member: str, generation: int, max_wait_ms: int, instance: int = INSTANCE) -> Heartbeat:
    return Heartbeat(group, member, generation, max_wait_ms, instance)


def leave(group: str, member: str, instance: int = INSTANCE, keeps_place: bool = False) -> LeaveGroup:
    return LeaveGroup(group, member, instance, keeps_place)


def receive(
    group: str,
    member: str,
    generation: int,
    max_wait_ms: int,
    messages_max: int,
    bytes_max: int,
    visibility_ms: int,
    is_busy: bool,
    partitions: Sequence[ReceivePartition],
    at_once: int = 2**32 - 1,
    instance: int = INSTANCE,
) -> Receive:
    limits = (max_wait_ms, messages_max, bytes_max, visibility_ms)
    return Receive(group, member, generation, *limits, is_busy, tuple(partitions), at_once, instance)


def settle(
    topic: bytes,
    partition: int,
    nonce: int,
    action: int,
    runs: Sequence[DeliveryRun],
    delay_ms: int | None = None,
    reason: str = "",
    whole: int = 0,
    sets: Sequence[DeliverySet] = (),
) -> SettleDelivery:
    return SettleDelivery(topic, partition, nonce, action, tuple(runs), delay_ms, reason, whole, tuple(sets))


def commit(
    group: str,
    member: str | None,
    generation: int,
    partitions: Sequence[CommitPartition],
    instance: int = INSTANCE,
) -> CommitOffsets:
    return CommitOffsets(group, member, generation, tuple(partitions), instance)
