"""What a member of a group holds at the partitions, when its consumer does not work on it any more.

A partition that cannot be reached keeps it until its leases end.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from goqueue.actors.groups.attachments import ANSWER_SECONDS_MAX, Attachment
from goqueue.actors.groups.requests import Leave, ReleaseMember, ReplaceMember
from goqueue.actors.runtime.bounded import call_within, with_each
from goqueue.core.groups.effects import Replaced
from goqueue.errors import GoQueueError

Report: TypeAlias = Callable[[str], None]


async def release(group: str, left: Leave, places: Sequence[Attachment], report: Report, *, stays: bool) -> None:
    """It comes again at once, uncounted. Who closed and stays a member keeps its partitions."""
    await _tell_each(places, ReleaseMember(group, left.member, True, left.instance, stays), report)


async def replace(group: str, replaced: Replaced, places: Sequence[Attachment], report: Report) -> None:
    """It comes again at once, and counts: who knows what became of the consumer that held it."""
    message = ReplaceMember(group, replaced.member, replaced.instance, replaced.before)
    await _tell_each(places, message, report)


async def _tell_each(places: Sequence[Attachment], message: ReleaseMember | ReplaceMember, report: Report) -> None:
    async def tell(place: Attachment) -> None:
        if place.ref is not None and place.trouble is None:
            try:
                await call_within(ANSWER_SECONDS_MAX, place.ref, message)
            except GoQueueError as error:
                report(f"{place.ref.name} did not give back what {message.member} held: {error.message}")

    await with_each(tell, places)
