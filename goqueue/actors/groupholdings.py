"""What a member of a group holds at the partitions, when it does not work on it any more.

A partition that cannot be reached keeps it until its leases end.
"""

from collections.abc import Callable, Sequence

from goqueue.actors.bounded import call_within, with_each
from goqueue.actors.groupattachments import ANSWER_SECONDS_MAX, Attachment
from goqueue.actors.grouprequests import ReleaseMember
from goqueue.errors import GoQueueError


async def release(group: str, member: str, places: Sequence[Attachment], report: Callable[[str], None]) -> None:
    """It comes again at once, uncounted."""

    async def ask(place: Attachment) -> None:
        if place.ref is not None and place.trouble is None:
            try:
                await call_within(ANSWER_SECONDS_MAX, place.ref, ReleaseMember(group, member, has_left=True))
            except GoQueueError as error:
                report(f"{place.ref.name} did not give back what {member} held: {error.message}")

    await with_each(ask, places)
