"""Membership of a stream: revoked partitions are released first, and only then the new generation is confirmed.

While the program finishes its work, heartbeats name the generation before, so the member is alive and keeps its
partitions. The broker answers each at once with the newest assignment.
"""

from collections.abc import Awaitable, Callable, Sequence

import trio

from goqueue.client.consuming.membership import HEARTBEAT_SECONDS, Membership
from goqueue.client.consuming.options import ConsumerOptions
from goqueue.client.link.caller import Caller
from goqueue.errors import Fenced, GoQueueError, UnknownGroup, UnknownMember
from goqueue.net.wire.groups import AssignedPartition, Heartbeat
from goqueue.net.wire.groups import Membership as MembershipNotice
from goqueue.nursery import PlainNursery


class StreamMembership(Membership):
    def __init__(
        self,
        client: Caller,
        options: ConsumerOptions,
        on_change: Callable[[], None],
        on_failure: Callable[[GoQueueError], None],
        *,
        on_join: Callable[[], None],
        let_go: Callable[[Sequence[AssignedPartition]], Awaitable[None]],
    ) -> None:
        super().__init__(client, options, on_change, on_failure)
        self._on_join = on_join
        self._let_go = let_go

    async def join(self) -> None:
        """A member that comes back does not know what happened meanwhile."""
        notice = await self._client.call(self._join, MembershipNotice)
        self._on_join()
        await self._adopt(notice)

    async def _adopt(self, notice: MembershipNotice) -> None:
        while lost := [each for each in self.assignment if each not in notice.assignment]:
            notice = await self._lose(lost, notice)
            self.assignment = tuple(each for each in self.assignment if each not in lost)
        await super()._adopt(notice)

    async def _lose(self, lost: Sequence[AssignedPartition], notice: MembershipNotice) -> MembershipNotice:
        """Release these. Returns the newest notice that came meanwhile."""
        heard = [notice]
        async with PlainNursery() as nursery:
            nursery.start_soon(self._stay_alive, heard)
            await self._let_go(lost)
            nursery.cancel_scope.cancel()
        return heard[-1]

    async def _stay_alive(self, heard: list[MembershipNotice]) -> None:
        while True:
            await trio.sleep(HEARTBEAT_SECONDS)
            request = Heartbeat(self._options.group, self.member, self.generation, 0, self.instance)
            try:
                heard[:] = [await self._client.call(request, MembershipNotice)]
            except (Fenced, UnknownMember, UnknownGroup):
                raise
            except GoQueueError as error:
                self._on_failure(error)
