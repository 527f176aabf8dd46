"""One look at a broker: four requests, all of which it answers from its boards."""

from collections.abc import Sequence

from goqueue.cli.top.rates import GroupLook, Look, TopicLook
from goqueue.client.client import Client
from goqueue.client.groups import Group
from goqueue.client.link.topics import Topic


async def look_at(client: Client) -> Look:
    counters, health = await client.stats(), await client.health()
    return Look(
        counters,
        health.status,
        [reason.code for reason in health.degraded],
        [_topic(each) for each in await client.topics()],
        [_group(each) for each in await client.groups()],
    )


def _topic(topic: Topic) -> TopicLook:
    size = sum(each.size or 0 for each in topic.partitions)
    return TopicLook(topic.name, str(topic.uuid), len(topic.partitions), sum(p.end for p in topic.partitions), size)


def _group(group: Group) -> GroupLook:
    partitions = group.partitions
    return GroupLook(
        group.name,
        group.state,
        sum(not member.is_away for member in group.members),
        sum(each.committed for each in partitions),
        group.lag,
        sum(each.in_flight for each in partitions),
        sum(each.waiting for each in partitions),
        _oldest([each.oldest_unacked_seconds for each in partitions]),
    )


def _oldest(ages: Sequence[float | None]) -> float | None:
    return max((age for age in ages if age is not None), default=None)
