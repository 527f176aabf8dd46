"""Joins of a group, and members from before the broker started."""

from collections.abc import Mapping, Set

import trio

from goqueue.actors.groups.attachments import Attachments
from goqueue.actors.groups.requests import Join
from goqueue.core.groups import rebalance
from goqueue.core.groups.effects import Assign
from goqueue.core.groups.member import MemberProfile
from goqueue.core.groups.registry import KnownGroup
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.start import may_miss
from goqueue.errors import Unavailable


def profile_of(message: Join, settings: GroupSettings) -> MemberProfile:
    return MemberProfile(
        message.member,
        message.client,
        message.subscription,
        settings,
        message.session_timeout,
        message.is_static,
        message.instance,
        message.address,
    )


def check_begun(group: str, topics: Set[str], starts: Mapping[str, str], attachments: Attachments) -> None:
    """G5: once it has joined, a member gets everything that is published from then on. `starts` are those that the
    register has not taken yet."""
    wanted = [attachment for name in topics for attachment in attachments.of_topic(name)]
    unwritten = [starts[name] for name in topics & starts.keys()]
    if any(map(may_miss, unwritten)) or any(attachment.begins_late for attachment in wanted):
        raise Unavailable(f"group {group} has not begun on all partitions yet; try again")


def expect_back(core: rebalance.Group, known: KnownGroup, attachments: Attachments) -> None:
    """Members from before the broker started keep their partitions for a moment. Nothing is sent to them: one that
    comes back learns it when it joins."""
    for effect in core.restore(trio.current_time(), known.members):
        if isinstance(effect, Assign):
            attachments.want(effect)
