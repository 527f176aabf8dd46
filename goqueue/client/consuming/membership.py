"""Membership of a group: joining, a sign of life every three seconds, and what has been assigned.

A heartbeat is a question that the broker answers when the member gets something else than it has, at the latest
after three seconds: so assignments are pushed. A broker that does not know the member, since it was restarted or
the member was silent for too long, is joined again under the same id; what was received before stays ours.

Each consumer draws an instance. Another one that joins as the same member, be it this program started again, has
the place from then on: the broker refuses this one with `Fenced`, and it does not join again.
"""

import logging
import re
from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

import trio

from goqueue.client.consuming.options import ConsumerOptions, start_text
from goqueue.client.link.caller import Caller
from goqueue.errors import Fenced, GoQueueError, UnknownGroup, UnknownMember
from goqueue.net.wire import messages as wire
from goqueue.net.wire.groups import AssignedPartition, Heartbeat, JoinGroup, LeaveGroup
from goqueue.net.wire.groups import Membership as MembershipNotice

logger = logging.getLogger("goqueue.client")

SESSION_TIMEOUT_MS = 30_000
HEARTBEAT_SECONDS = 3.0
PAUSE_SECONDS = 1.0
"""After a failure, and between heartbeats that a broker answers at once."""
CLIENT_NAME_MAX = 100

AnswerT = TypeVar("AnswerT")


class Membership:
    def __init__(
        self,
        client: Caller,
        options: ConsumerOptions,
        on_change: Callable[[], None],
        on_failure: Callable[[GoQueueError], None],
    ) -> None:
        self._client = client
        self._options = options
        self._on_change, self._on_failure = on_change, on_failure
        self.member = options.member_id or _drawn_member(client.name)
        self._join = JoinGroup(
            options.group,
            self.member,
            client.name,
            options.subscription,
            options.settings,
            start_text(options.start),
            SESSION_TIMEOUT_MS,
            is_static=options.member_id is not None,
            instance=uuid4().int >> 65,
        )
        self.generation = 0
        self.assignment: tuple[AssignedPartition, ...] = ()
        self.is_member = False
        self.fenced: Fenced | None = None
        """Another consumer has its place."""

    @property
    def instance(self) -> int:
        return self._join.instance

    async def join(self) -> None:
        await self._adopt(await self._client.call(self._join, MembershipNotice))

    async def leave(self) -> None:
        """A member with an id of its own keeps its place for a while: it is likely to be started again."""
        self.is_member = False
        if self.fenced is None:
            keeps_place = self._join.is_static
            await self._client.call(
                LeaveGroup(self._options.group, self.member, self.instance, keeps_place), wire.Done
            )

    async def run(self) -> None:
        """Stay a member, or become one first, until another consumer has its place."""
        while self.fenced is None:
            try:
                await (self._beat() if self.is_member else self.join())
            except Fenced as error:
                self.note_fenced(error)
            except (UnknownMember, UnknownGroup):
                await self._note_unknown()
            except GoQueueError as error:
                await self._note(error)

    def note_fenced(self, error: Fenced) -> None:
        self.is_member, self.fenced = False, error
        self._on_failure(error)

    async def _beat(self) -> None:
        begun_at = trio.current_time()
        link = self._client.link
        is_crowded = link is not None and link.heartbeats_are_many
        patience = 0.0 if is_crowded else HEARTBEAT_SECONDS
        request = Heartbeat(
            self._options.group, self.member, self.generation, round(1000 * patience), self.instance
        )
        answer = await self._client.call(request, MembershipNotice)
        if (answer.generation, answer.assignment) != (self.generation, self.assignment) or not self.is_member:
            await self._adopt(answer)
        else:
            await trio.sleep_until(begun_at + (HEARTBEAT_SECONDS if is_crowded else PAUSE_SECONDS))

    async def _note_unknown(self) -> None:
        """News to a member, which joins again at once. A broker that was restarted amid joining is no news."""
        if self.is_member:
            logger.info("group %s does not know %s; joining again", self._options.group, self.member)
            self.is_member = False
        else:
            await trio.sleep(PAUSE_SECONDS)

    async def _note(self, error: GoQueueError) -> None:
        """Whoever waits for messages hears it; then it is tried again."""
        self._on_failure(error)
        await trio.sleep(PAUSE_SECONDS)

    async def _adopt(self, notice: MembershipNotice) -> None:
        self.generation, self.assignment, self.is_member = notice.generation, notice.assignment, True
        self._on_change()


def _drawn_member(client_name: str) -> str:
    """`{client}-{hex}`, of characters that names may have."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", client_name)[:CLIENT_NAME_MAX].lstrip("_") or "client"
    return f"{name}-{uuid4().hex[:12]}"
