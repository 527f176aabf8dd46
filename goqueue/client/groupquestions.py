"""What operators ask about groups, checked: the question as it travels, or a typed error that says what to give."""

from collections.abc import Iterable, Mapping
from typing import Any

from goqueue.client.consuming.options import start_text
from goqueue.client.link.arguments import (
    check_any_partition,
    check_flag,
    check_offset,
    check_text,
    check_whole,
    refusal,
)
from goqueue.core.names import check_group_name, check_publishable
from goqueue.net.wire import groups as wire
from goqueue.net.wire.fields import LIST_COUNT_MAX, NAME_SIZE_MAX, PROSE_SIZE_MAX
from goqueue.net.wire.whymessages import Why
from goqueue.types import Offset

COUNT_MAX = 2**32 - 1
"""Of messages, as far as the wire counts them."""


def altering(group: object, settings: object, force: object) -> wire.AlterGroup:
    """Which settings there are, and what they may be, the broker knows."""
    name = check_group_name(group)
    if not isinstance(settings, Mapping):
        raise refusal(
            f"a group's settings are a map of names to values, like {{'max_deliveries': 5}}, "
            f"not {type(settings).__name__}"
        )
    for key, value in settings.items():
        _check_setting(key, value)
    return wire.AlterGroup(name, dict(settings), check_flag("force", force))


def _check_setting(name: object, value: object) -> None:
    if not isinstance(name, str):
        raise refusal(f"a setting's name is text, not {type(name).__name__}")
    if not isinstance(value, str | int | float | bool | None):
        raise refusal(f"setting {name!r} is text, a number, True, False or None, not {type(value).__name__}")


def resetting(
    group: object, start: Any, *, topic: object, partition: object, dry_run: object, force: object
) -> wire.ResetGroup:
    if partition is not None and topic is None:
        raise refusal("a partition is of one topic; give topic too, or neither")
    return wire.ResetGroup(
        check_group_name(group),
        None if topic is None else check_publishable(topic),
        None if partition is None else check_any_partition(partition),
        start_text(start),
        check_flag("dry_run", dry_run),
        check_flag("force", force),
    )


def skipping(
    group: object,
    topic: object,
    partition: object,
    first: object,
    last: object,
    *,
    dry_run: object,
) -> wire.SkipDamaged:
    span = check_offset("first", first), check_offset("last", last)
    if span[0] > span[1]:
        raise refusal(f"first={first} lies behind last={last}; give the first and the last damaged offset")
    return wire.SkipDamaged(
        check_group_name(group),
        check_publishable(topic),
        check_any_partition(partition),
        *span,
        check_flag("dry_run", dry_run),
    )


def redriving(
    topic: object,
    *,
    group: object,
    partition: object,
    offsets: object,
    reason: object,
    to: object,
    all_groups: object,
    max_messages: object,
    per_second: object,
    dry_run: object,
) -> wire.Redrive:
    if to is not None and all_groups is True:
        raise refusal("a redrive goes to another topic or to all groups of this one; give to or all_groups")
    return wire.Redrive(
        check_publishable(topic),
        None if group is None else check_group_name(group),
        None if partition is None else check_any_partition(partition),
        None if offsets is None else _checked_offsets(offsets),
        None if reason is None else check_text("reason", reason, PROSE_SIZE_MAX),
        None if to is None else check_publishable(to),
        check_flag("all_groups", all_groups),
        None if max_messages is None else check_whole("max_messages", max_messages, 0, COUNT_MAX),
        None if per_second is None else check_whole("per_second", per_second, 1, COUNT_MAX),
        check_flag("dry_run", dry_run),
    )


def asking_why(group: object, member: object) -> Why:
    return Why(check_group_name(group), None if member is None else check_text("member", member, NAME_SIZE_MAX))


def _checked_offsets(offsets: object) -> tuple[Offset, ...]:
    if not isinstance(offsets, Iterable) or isinstance(offsets, str | bytes):
        raise refusal(f"offsets is a list of offsets, not {type(offsets).__name__}")
    checked = tuple(check_offset("offsets", each) for each in offsets)
    if len(checked) > LIST_COUNT_MAX:
        raise refusal(f"there are {len(checked):,} offsets; give {LIST_COUNT_MAX:,} at most at a time")
    return checked
