"""How a member enters its group, and what is known of one that was a member before the broker started."""

from collections.abc import Iterable, Mapping
from typing import Any

import trio

from goqueue.actors.groupattachments import Attachments
from goqueue.actors.grouprequests import Join
from goqueue.core import rebalance
from goqueue.core.assignors import TopicPartition
from goqueue.core.groupeffects import Assign, Effect
from goqueue.core.groupregistry import KnownGroup
from goqueue.core.groupsettings import GroupSettings


def settings_asked_for(core: rebalance.Group, given: Mapping[str, Any]) -> GroupSettings:
    """What a member leaves out is as the group has it."""
    there = {} if core.settings is None else core.settings.to_plain()
    return GroupSettings.from_plain({**there, **given})


def enter(core: rebalance.Group, message: Join, settings: GroupSettings) -> list[Effect]:
    return core.join(
        trio.current_time(),
        message.member,
        client=message.client,
        subscription=message.subscription,
        settings=settings,
        session_timeout=message.session_timeout,
        is_static=message.is_static,
        instance=message.instance,
    )


def expect_back(core: rebalance.Group, known: KnownGroup, attachments: Attachments) -> None:
    """Those who were members before the broker started keep their partitions for a moment. Nobody is told: whoever
    comes back hears of it when it joins."""
    for effect in core.restore(trio.current_time(), known.members):
        if isinstance(effect, Assign):
            attachments.want(effect)


def freed(effects: Iterable[Effect]) -> frozenset[TopicPartition]:
    """What a member had that left before it came back."""
    return frozenset(TopicPartition(each.topic, each.partition) for each in effects if isinstance(each, Assign))
