"""Seats: how many there are, and whose go first."""

import pytest
import trio
from trio.testing import MockClock

from goqueue.core.offsetset import OffsetSet
from goqueue.errors import UnknownMember
from goqueue.http import gateway
from goqueue.http.members.holding import DeliveryKey, HolderIndex, MemberHolding
from goqueue.http.members.seats import IDLE_SECONDS_MAX, HttpSeats
from tests.http.members.world import beat, join, poll, polling, receipts, settle, values, world
from tests.http.world import connected

KEY = DeliveryKey("g", "orders", 0, 1)


async def test_beyond_the_bound_who_was_idle_longest_joins_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not who has a poll open."""
    monkeypatch.setattr(gateway, "HttpSeats", lambda new: HttpSeats(new, most=2))
    async with world(0) as (machine, client, http), connected(machine) as other, trio.open_nursery() as nursery:
        found: list[str] = []

        async def take() -> None:
            found.extend(values(await poll(other, "a", timeout=60)))

        await join(http, "a")
        nursery.start_soon(take)
        await trio.sleep(1)
        await join(http, "b")
        await trio.sleep(1)
        await join(http, "c")
        assert [(await beat(http, member)).status for member in "abc"] == [200, 404, 200]
        [partition] = (await client.group("g")).partitions
        assert partition.member_id == "a"
        await client.publish("orders", b"v")
        await trio.sleep(1)
        assert found == ["v"]


async def test_seats_of_members_that_have_gone_do_not_stay(autojump_clock: MockClock) -> None:
    seats = HttpSeats(lambda _: Session())  # type: ignore[arg-type,return-value]
    for number in range(100):
        seats.put(seats.new(("g", str(number)), 0, "queue", 30.0, None))
    await trio.sleep(IDLE_SECONDS_MAX + 1)
    seats.put(seats.new(("g", "m"), 0, "queue", 30.0, None))
    assert len(seats) == 1
    with pytest.raises(UnknownMember, match="join again"):
        seats.find("g", "1")


class Session:
    """What a seat has of its session, without a broker."""

    def close(self) -> None:
        pass


async def test_the_rest_of_a_delivery_is_held_until_its_visibility_is_over(autojump_clock: MockClock) -> None:
    index: HolderIndex = {}
    holding = MemberHolding(index)
    holding.add(KEY, OffsetSet([(1, 4)]), 400, until=10.0)
    holding.settle(KEY, OffsetSet.of([1]))
    holding.settle(KEY, OffsetSet.of([1]))
    assert holding.count == 3
    holding.extend(KEY, OffsetSet.of([2]), until=20.0)
    assert holding.room(15.0, 10_000) == (3_997, 16 * 1024 * 1024 - 300)
    holding.extend(KEY, OffsetSet([(2, 4)]), until=5.0)
    assert holding.room(15.0, 10_000)[0] == 4_000
    assert (bool(holding), index) == (False, {})


async def test_anybody_settles_what_a_member_holds(autojump_clock: MockClock) -> None:
    async with world(0) as (machine, client, http), connected(machine) as other:
        async with client.producer("orders") as producer:
            await producer.send_many([b"v"] * 4_001)
        await join(http)
        polled = [await poll(http, limit=1_000, visibility=600) for _ in range(4)]
        assert (await http.ask("GET", polling())).status == 429
        assert (await settle(other, "ack", receipts(polled[2])[:1])).status == 200
        assert len(values(await poll(http))) == 1
        assert (await settle(other, "visibility", receipts(polled[1]), seconds=1)).status == 200
        await trio.sleep(1.1)
        assert len(values(await poll(http, limit=1_000))) == 1_000
