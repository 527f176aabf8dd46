"""Membership of a group: joining, heartbeats every three seconds, and the assignment.

The broker answers a heartbeat when the assignment has changed, at the latest after three seconds: so assignments
are pushed. If the broker does not know the member, since it was restarted or the member was silent for too long,
the member joins again with the same id; messages that it received before stay its own.

Each consumer draws an instance number. Another consumer that joins as the same member, such as this program started
again, replaces it: the broker refuses this one with `Fenced`, and it does not join again.
"""

import logging
import re
from collections.abc import Callable
from typing import Any, TypeVar
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
"""The pause after a failure, and between heartbeats that a broker answers at once."""
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
        """Another consumer has replaced it."""

    @property
    def is_stream(self) -> bool:
        return self._options.mode == "stream"

    def begin_with(self, defaults: dict[str, Any]) -> None:
        """For a group that has no settings yet, beyond those that were asked for."""
        self._join = self._join._replace(defaults=defaults)

    @property
    def instance(self) -> int:
        return self._join.instance

    async def join(self) -> None:
        await self._adopt(await self._client.call(self._join, MembershipNotice))

    async def leave(self) -> None:
        """A member with an id of its own keeps its assignment for a while: it will probably be started again."""
        self.is_member = False
        if self.fenced is None:
            keeps_place = self._join.is_static
            await self._client.call(
                LeaveGroup(self._options.group, self.member, self.instance, keeps_place), wire.Done
            )

    async def run(self) -> None:
        """Join, and stay a member, until another consumer replaces it."""
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
        """A member joins again at once. While joining, as with a broker that restarts, it pauses first."""
        if self.is_member:
            logger.info("group %s does not know %s; joining again", self._options.group, self.member)
            self.is_member = False
        else:
            await trio.sleep(PAUSE_SECONDS)

    async def _note(self, error: GoQueueError) -> None:
        """Calls that wait for messages get the error; then it is tried again."""
        self._on_failure(error)
        await trio.sleep(PAUSE_SECONDS)

    async def _adopt(self, notice: MembershipNotice) -> None:
        self.generation, self.assignment, self.is_member = notice.generation, notice.assignment, True
        self._on_change()


def _drawn_member(client_name: str) -> str:
    """`{client}-{hex}`, with characters that names may have."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", client_name)[:CLIENT_NAME_MAX].lstrip("_") or "client"
    return f"{name}-{uuid4().hex[:12]}"
