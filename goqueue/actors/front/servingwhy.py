"""Answering why nothing is delivered."""

from collections.abc import Callable
from typing import Any

from goqueue.actors.front.session import Desk
from goqueue.actors.groups.requests import FindGroup
from goqueue.actors.groups.whyrequests import GatherFacts
from goqueue.core.groups.member import check_member_id
from goqueue.core.names import check_group_name
from goqueue.core.why.rules import explain
from goqueue.net.wire import whymessages as wire
from goqueue.net.wire.fields import PROSE_SIZE_MAX


async def why(desk: Desk, request: wire.Why) -> wire.Because:
    """One at a time on a connection, as with descriptions: it asks all partitions of the group."""
    name = check_group_name(request.group)
    if request.member is not None:
        check_member_id(request.member)
    async with desk.describing:
        group = await desk.broker.groups.call(FindGroup(name))
        facts = await group.call(GatherFacts(request.member))
    found = explain(facts)
    return wire.Because(found.text[:PROSE_SIZE_MAX], {"reason": found.reason, **facts.figures()})


ANSWERED: dict[type[Any], Callable[[Desk, Any], Any]] = {wire.Why: why}
