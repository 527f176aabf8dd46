"""A topic that is there already, or is created."""

from collections.abc import Iterator
from reprlib import repr as shortened

from goqueue.client.link.caller import Caller
from goqueue.client.link.topics import Topic, only_topic
from goqueue.core.settingstable import UNLIMITED
from goqueue.errors import TopicExists, Unavailable, UnknownTopic
from goqueue.net.wire import messages as wire

LOOKS_MAX = 10


async def found_or_created(client: Caller, request: wire.CreateTopic) -> Topic:
    """The topic that is there, if it is as the request wants it, else a new one.

    Of two that create it at once one finds the other's. A topic that is deleted in between is created.
    """
    for _ in range(LOOKS_MAX):
        try:
            return _as_wanted(await client.topic(request.name), request)
        except UnknownTopic:
            pass
        try:
            return only_topic(await client.call(request, wire.Topics))
        except TopicExists:
            continue
    raise Unavailable(f"topic {request.name} is being deleted and created again by others; try again later")


def _as_wanted(topic: Topic, request: wire.CreateTopic) -> Topic:
    differences = list(_differences(topic, request))
    if differences:
        raise TopicExists(
            f"topic {topic.name} is there, but {' and '.join(differences)}; alter it, or ask for what it has",
            differences=differences,
        )
    return topic


def _differences(topic: Topic, request: wire.CreateTopic) -> Iterator[str]:
    if len(topic.partitions) != request.partitions:
        count = len(topic.partitions)
        yield f"it has {count} partition{'s' if count > 1 else ''}, not {request.partitions}"
    for name, asked in request.config.items():
        has, wanted = topic.config.get(name), UNLIMITED if asked is None else asked
        if name not in topic.config:
            yield f"it has no setting {shortened(name)}"
        elif has != wanted:
            yield f"its {name} is {shortened(has)}, not {shortened(wanted)}"
