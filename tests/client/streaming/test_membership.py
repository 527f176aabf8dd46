"""A stream's member that loses partitions while its broker comes and goes."""

from collections.abc import Sequence
from typing import Any

import trio
from trio.testing import MockClock

from goqueue.client.consuming.options import ConsumerOptions
from goqueue.client.streaming.membership import StreamMembership
from goqueue.errors import Fenced, GoQueueError, UnknownMember
from goqueue.net.wire.groups import AssignedPartition, Heartbeat, JoinGroup, Membership
from tests.client.callers import BareCaller

PARTITION = AssignedPartition("orders", bytes(16), 0)


class ForgetfulBroker(BareCaller):
    """It is restarted after each join but the last, and knows nobody then."""

    def __init__(self, assignments: Sequence[tuple[AssignedPartition, ...]], refusal: GoQueueError) -> None:
        super().__init__()
        self._assignments, self._refusal = assignments, refusal
        self.joins = 0

    async def call(self, request: Any, kind: type[Any]) -> Any:
        await trio.lowlevel.checkpoint()
        if isinstance(request, JoinGroup):
            self.joins += 1
        elif isinstance(request, Heartbeat) and self.joins < len(self._assignments):
            raise self._refusal
        else:
            await trio.sleep(request.max_wait_ms / 1000)
        return Membership("worker", self.joins, {}, self._assignments[self.joins - 1], ())


async def work_for_ever(_: Sequence[AssignedPartition]) -> None:
    await trio.sleep_forever()


async def run_for_a_minute(broker: ForgetfulBroker, heard: list[GoQueueError]) -> StreamMembership:
    """Whatever it is to let go of is worked on for ever."""
    membership = StreamMembership(
        broker,
        ConsumerOptions(topics="orders", group="audit", mode="stream", member_id="worker"),
        lambda: None,
        heard.append,
        on_join=lambda: None,
        let_go=work_for_ever,
    )
    with trio.move_on_after(60):
        await membership.run()
    return membership


async def test_a_broker_restarted_while_a_member_that_came_back_lets_go_is_no_news(
    autojump_clock: MockClock,
) -> None:
    heard: list[GoQueueError] = []
    broker = ForgetfulBroker([(PARTITION,), (), (PARTITION,)], UnknownMember("who is that? join again"))
    membership = await run_for_a_minute(broker, heard)
    assert (broker.joins, membership.is_member, membership.assignment) == (3, True, (PARTITION,))
    assert heard == []


async def test_who_is_replaced_while_it_lets_go_after_coming_back_does_not_join_again(
    autojump_clock: MockClock,
) -> None:
    heard: list[GoQueueError] = []
    broker = ForgetfulBroker([(PARTITION,), (), (PARTITION,)], UnknownMember("who is that? join again"))
    refuse, replacement = broker.call, Fenced("another consumer joined as worker")

    async def call(request: Any, kind: type[Any]) -> Any:
        if isinstance(request, Heartbeat) and broker.joins == 2:
            raise replacement
        return await refuse(request, kind)

    broker.call = call  # type: ignore[method-assign]
    membership = await run_for_a_minute(broker, heard)
    assert (broker.joins, membership.fenced) == (2, replacement)
    assert heard == [replacement]
