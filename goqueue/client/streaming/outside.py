"""Commits of readers outside of a group, which share the work among themselves."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import trio

from goqueue.client.link.arguments import check_any_partition, check_offset, refusal
from goqueue.client.link.caller import Caller
from goqueue.client.link.connection import CALL_SECONDS_MAX, RECONNECT_SECONDS_MAX, RECONNECT_SECONDS_MIN
from goqueue.core.names import check_group_name, check_topic_name
from goqueue.net.wire.failures import error_of
from goqueue.net.wire.groups import CommitOffsets, CommitPartition, OffsetsCommitted
from goqueue.types import Offset

if TYPE_CHECKING:
    pass

AnswerT = TypeVar("AnswerT")


async def commit_from_outside(client: Caller, group: str, topic: str, offsets: Mapping[int, Offset]) -> None:
    """Each partition is committed by itself, and repeated if that may help; the first final error is raised."""
    check_group_name(group)
    check_topic_name(topic, by_broker=True)
    if not isinstance(offsets, Mapping):
        raise refusal(f"offsets are a map of partitions to offsets, not {type(offsets).__name__}")
    wanted = {check_any_partition(number): check_offset("offsets", each) for number, each in offsets.items()}
    uuid = (await client.topic(topic)).uuid.bytes
    asked = tuple(CommitPartition(uuid, number, offset) for number, offset in sorted(wanted.items()))
    deadline, pause = trio.current_time() + CALL_SECONDS_MAX, RECONNECT_SECONDS_MIN
    while asked:
        answer = await client.call(CommitOffsets(group, None, 0, asked, 0), OffsetsCommitted)
        errors = [None if outcome.error is None else error_of(outcome.error) for outcome in answer.partitions]
        for error in filter(None, errors):
            if not error.retryable or trio.current_time() + pause >= deadline:
                raise error
        asked = tuple(each for each, error in zip(asked, errors, strict=True) if error is not None)
        await trio.sleep(pause if asked else 0)
        pause = min(2 * pause, RECONNECT_SECONDS_MAX)
