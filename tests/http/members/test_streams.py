"""Streams over HTTP: where a poll reads on, and who lets go of what."""

import trio
from trio.testing import MockClock

from tests.http.members.world import SHORT, beat, join, poll, polling, values, world
from tests.http.world import connected

STREAM = {"mode": "stream"}


async def test_a_poll_that_was_left_has_read_nothing(autojump_clock: MockClock) -> None:
    """What nobody was answered is read by the next poll."""
    for delay in (0.0, 0.01, 0.02, 0.05):
        async with world(0) as (machine, client, http):
            machine.slow(0.01)
            await join(http, settings=STREAM)
            async with connected(machine) as other, trio.open_nursery() as nursery:
                await other.send(f"GET {polling()} {SHORT}".encode())
                await trio.sleep(1)
                nursery.start_soon(client.publish, "orders", b"v")
                await trio.sleep(delay)
                await other.stream.aclose()
            await trio.sleep(0.1)
            await client.publish("orders", b"w")
            first = values(await poll(http))
            assert first in (["v", "w"], ["w"])
            if first == ["w"]:
                commit = {"member_id": "m", "generation": 1, "offsets": {"orders": {"0": 0}}}
                await http.ask("POST", "/groups/g/offsets", commit)
                assert values(await poll(http)) == ["v", "w"]


async def test_a_poll_whose_answer_was_not_taken_is_repeated_by_the_next(autojump_clock: MockClock) -> None:
    async with world(0) as (machine, client, http), connected(machine) as other:
        async with client.producer("orders") as producer:
            await producer.send_many([b"%04d" % number + b"x" * 1_000 for number in range(200)])
        await join(http, settings=STREAM)
        machine.network.conditions.buffer_bytes = 1_000
        await other.send(f"GET {polling(limit=200)} {SHORT}".encode())
        await trio.sleep(1)
        await other.stream.aclose()
        await trio.sleep(1)
        assert [int(value[:4]) for value in values(await poll(http, limit=200))] == list(range(200))


async def test_a_member_that_lost_an_answer_commits_and_reads_on_from_there(autojump_clock: MockClock) -> None:
    async with world(10) as (_, _, http):
        joined = await join(http, settings=STREAM)
        assert values(await poll(http, limit=4)) == ["0", "1", "2", "3"]
        commit = {"member_id": "m", "generation": joined["generation"], "offsets": {"orders": {"0": 2}}}
        assert (await http.ask("POST", "/groups/g/offsets", commit)).status == 200
        assert values(await poll(http, limit=4)) == ["2", "3", "4", "5"]


async def test_an_answer_has_at_most_so_many_bytes(autojump_clock: MockClock) -> None:
    async with world(0) as (_, client, http):
        async with client.producer("orders") as producer:
            await producer.send_many([b"%04d" % number + b"x" * 996 for number in range(10)])
        await join(http, settings=STREAM)
        assert len(values(await poll(http, max_bytes=2_500))) == 2
        assert len(values(await poll(http, max_bytes=10))) == 1
        assert [int(value[:4]) for value in values(await poll(http))] == list(range(3, 10))


async def test_polls_do_not_let_go_of_what_was_revoked_and_the_heartbeat_does(autojump_clock: MockClock) -> None:
    """With its older generation the member still commits what it has read of it."""
    async with world(4, partitions=2) as (machine, _, http), connected(machine) as other:
        joined = await join(http, "a", settings=STREAM)
        assert len(values(await poll(http, "a"))) == 4
        await join(other, "b", settings=STREAM)
        for _ in range(3):
            newest = await poll(http, "a", timeout=1)
        assert len(newest["assignment"]) == 1
        older = (await beat(http, "a", generation=joined["generation"])).json()
        assert older == {key: newest[key] for key in ("generation", "assignment")}
        assert (await poll(other, "b", timeout=1))["assignment"] == []
        revoked = 1 - newest["assignment"][0]["partition"]
        commit = {"member_id": "a", "offsets": {"orders": {str(revoked): 2}}}
        done = await http.ask("POST", "/groups/g/offsets", {**commit, "generation": joined["generation"]})
        assert done.status == 200, done.body
        assert (await beat(http, "a", generation=newest["generation"])).status == 200
        taken = await poll(other, "b", timeout=5)
        assert (len(taken["assignment"]), taken["messages"]) == (1, [])
        late = await http.ask("POST", "/groups/g/offsets", {**commit, "generation": newest["generation"]})
        assert late.status == 409
