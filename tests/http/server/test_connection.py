"""A connection over a stream in memory: the client sends in any way, or does not read, and nobody waits for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

import pytest
import trio
from trio.testing import MockClock

from goqueue.errors import GoQueueError
from goqueue.http.server.budget import ByteBudget
from goqueue.http.server.connection import (
    ANSWER_SECONDS,
    BODY_SECONDS,
    HEAD_SECONDS_MAX,
    IDLE_SECONDS_MAX,
    LINGER_SECONDS_MAX,
    PACE_BYTES,
    Budgets,
    HttpConnection,
    Serve,
)
from goqueue.http.server.errors import Overloaded, status_of
from goqueue.http.server.exchange import Exchange, Response
from goqueue.http.server.machine import LAST_CHUNK
from goqueue.testing.network import SimulatedConnection
from goqueue.testing.stream import Conditions, SimulatedStream
from tests.http.server.transcripts import CHUNKED, GET, POST

ONE = GET + b"\r\n"
SIZE_MAX = 1_000_000
LARGE = 2_000_000
"""More than the stream and the connection hold between them."""


def refused(request_id: str, error: GoQueueError) -> Response:
    return Response(status_of(error), str(error).encode())


@dataclass
class Echo:
    """Answers with the body, or what the target asks for; notes what happened."""

    seen: list[bytes] = field(default_factory=list)

    async def serve(self, exchange: Exchange) -> None:
        try:
            await self._serve(exchange)
        except GoQueueError as error:
            self.seen.append(b"refused")
            if exchange.status is None:
                await exchange.answer(refused(exchange.request_id, error))

    async def _serve(self, exchange: Exchange) -> None:
        target = exchange.head.target
        self.seen.append(target)
        if target == b"/large":
            await exchange.answer(Response(body=bytes(LARGE)))
        elif target == b"/ignore":
            await exchange.answer(Response(body=b"ignored"))
        elif target == b"/poll":
            if await exchange.unless_gone(partial(trio.sleep, 20)):
                await exchange.answer(Response(body=b"nothing"))
            else:
                self.seen.append(b"gone")
        elif target == b"/pieces":
            await exchange.begin(Response())
            for _ in range(3):
                await trio.sleep(1)
                await exchange.send(b"piece ")
            await exchange.end()
        elif target == b"/parts":
            while part := await exchange.next_part():
                exchange.keep(0)
                if len(part) > 1:
                    await trio.sleep(BODY_SECONDS)  # whoever works is not waiting for the client
            await exchange.answer(Response(body=b"read"))
        elif target == b"/begun":
            await exchange.begin(Response())
            await exchange.next_part()
        else:
            await exchange.answer(Response(body=await exchange.body(SIZE_MAX)))


@dataclass
class Served:
    client: SimulatedStream
    connection: HttpConnection
    budgets: Budgets
    link: SimulatedConnection
    ended: trio.Event


@asynccontextmanager
async def served(serve: Serve, bodies: int = 10 * SIZE_MAX, answers: int = 10 * LARGE) -> AsyncIterator[Served]:
    link = SimulatedConnection("client", "broker", Random(0), Conditions())
    budgets = Budgets(ByteBudget(bodies, "bodies"), ByteBudget(answers, "answers"))
    connection, ended = HttpConnection(link.server, serve, refused, budgets, 1), trio.Event()

    async def run() -> None:
        await connection.run()
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        yield Served(link.client, connection, budgets, link, ended)
        link.client.close()
        with trio.fail_after(ANSWER_SECONDS + LINGER_SECONDS_MAX):
            await ended.wait()
    assert (budgets.bodies.taken, budgets.answers.taken) == (0, 0), "what was taken is given back"


async def everything_from(stream: SimulatedStream) -> bytes:
    heard = bytearray()
    with suppress(trio.BrokenResourceError):
        while piece := await stream.receive_some():
            heard += piece
    return bytes(heard)


async def talk(sent: bytes, serve: Serve | None = None) -> bytes:
    """Send it, say no more, and hear everything."""
    async with served(serve or Echo().serve) as world:
        await world.client.send_all(sent)
        await world.client.send_eof()
        return await everything_from(world.client)


def bodies_in(heard: bytes) -> list[bytes]:
    return [each.partition(b"\r\n\r\n")[2] for each in heard.split(b"HTTP/1.1 ")[1:]]


def statuses_in(heard: bytes) -> list[int]:
    return [int(each[:3]) for each in heard.split(b"HTTP/1.1 ")[1:]]


async def test_pipelined_requests_are_answered_in_order(autojump_clock: MockClock) -> None:
    posts = [POST + b"content-length: %d\r\n\r\n" % len(text) + text for text in (b"one", b"", b"three")]
    assert bodies_in(await talk(b"".join(posts))) == [b"one", b"", b"three"]


async def test_a_thousand_pipelined_requests_are_answered_though_nobody_reads_meanwhile(
    autojump_clock: MockClock,
) -> None:
    async with served(Echo().serve) as world, trio.open_nursery() as nursery:
        nursery.start_soon(world.client.send_all, ONE * 3_000 + GET + b"connection: close\r\n\r\n")
        await trio.sleep(1)
        assert len(statuses_in(await everything_from(world.client))) == 3_001


async def test_chunks_are_read_and_the_next_request_is_found(autojump_clock: MockClock) -> None:
    heard = await talk(CHUNKED + b"3\r\none\r\n0\r\n\r\n" + ONE)
    assert bodies_in(heard) == [b"one", b""]


async def test_a_client_that_asks_for_leave_gets_it_when_its_body_is_wanted(autojump_clock: MockClock) -> None:
    async with served(Echo().serve) as world:
        await world.client.send_all(POST + b"expect: 100-continue\r\ncontent-length: 3\r\n\r\n")
        assert await world.client.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await world.client.send_all(b"one")
        assert statuses_in(await world.client.receive_some()) == [200]


@pytest.mark.parametrize(("target", "length", "status"), [(b"/", SIZE_MAX + 1, 413), (b"/ignore", 3, 200)])
async def test_a_client_that_asks_for_leave_in_vain_is_told_so_at_once(
    target: bytes, length: int, status: int, autojump_clock: MockClock
) -> None:
    """And the connection ends: the client may send the body or not."""
    async with served(Echo().serve) as world:
        head = b"POST %b HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n" % (
            target,
            length,
        )
        await world.client.send_all(head)
        heard = await everything_from(world.client)
        assert statuses_in(heard) == [status]
        assert b"connection: close" in heard


async def test_the_answer_to_head_has_no_body_but_its_length(autojump_clock: MockClock) -> None:
    heard = await talk(b"HEAD /ignore HTTP/1.1\r\nhost: a\r\n\r\n" + ONE)
    assert heard.count(b"ignored") == 0
    assert b"content-length: 7\r\n" in heard
    assert statuses_in(heard) == [200, 200]


async def test_pieces_come_in_chunks_and_to_an_old_client_until_the_end(autojump_clock: MockClock) -> None:
    asked = b"GET /pieces HTTP/%b\r\nhost: a\r\nconnection: keep-alive\r\n\r\n"
    new, old = await talk(asked % b"1.1"), await talk(asked % b"1.0")
    assert bodies_in(new) == [b"6\r\npiece \r\n" * 3 + LAST_CHUNK]
    assert bodies_in(old) == [b"piece " * 3]
    assert b"connection: close" in old


async def test_a_client_of_http_1_0_keeps_its_connection_only_if_it_says_so(autojump_clock: MockClock) -> None:
    once = await talk(b"GET /ignore HTTP/1.0\r\n\r\n" + ONE)
    assert statuses_in(once) == [200]
    assert b"connection: close" in once


async def test_half_closed_sockets_get_their_answers(autojump_clock: MockClock) -> None:
    assert statuses_in(await talk(ONE + ONE)) == [200, 200]


async def test_a_body_that_nobody_reads_is_passed_over_if_it_is_small(autojump_clock: MockClock) -> None:
    post = b"POST /ignore HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n"
    assert statuses_in(await talk(post % 1_000 + bytes(1_000) + ONE)) == [200, 200]
    async with served(Echo().serve) as world, trio.open_nursery() as nursery:
        nursery.start_soon(send_what_goes, world.client, post % LARGE + bytes(LARGE))
        heard = await everything_from(world.client)
    assert statuses_in(heard) == [200]
    assert b"connection: close" in heard


async def send_what_goes(stream: SimulatedStream, data: bytes) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await stream.send_all(data)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\nhost: a\n\n", 400),
        (GET + b"x: " + bytes([97]) * 20_000, 431),
        (CHUNKED + b"zz\r\n", 400),
        (CHUNKED + b"f" * 15 + b"\r\n" + bytes(SIZE_MAX + 1), 413),
        (POST + b"content-length: 999999999999\r\n\r\n", 413),
        (b"GET / HTTP/3.0\r\nhost: a\r\n\r\n", 505),
        (b"\x16\x03\x01\x02", 400),
    ],
)
async def test_what_cannot_be_read_is_answered_and_then_the_connection_ends(
    sent: bytes, status: int, autojump_clock: MockClock
) -> None:
    async with served(Echo().serve) as world, trio.open_nursery() as nursery:
        nursery.start_soon(send_what_goes, world.client, sent + ONE)
        heard = await everything_from(world.client)
    assert statuses_in(heard) == [status]
    assert b"connection: close" in heard


async def test_an_answer_is_not_followed_by_another_one_for_the_same_request(autojump_clock: MockClock) -> None:
    """The rest of a body that cannot be read comes behind its answer."""
    ignored = b"POST /ignore HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
    begun = b"POST /begun HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
    assert statuses_in(await talk(ignored)) == [200]
    heard = await talk(begun)
    assert statuses_in(heard) == [200]
    assert not heard.endswith(LAST_CHUNK), "what is missing is seen"


# Time


async def test_an_idle_connection_ends_after_its_time(autojump_clock: MockClock) -> None:
    async with served(Echo().serve) as world:
        await world.client.send_all(ONE)
        await world.client.receive_some()
        began_at = trio.current_time()
        assert await everything_from(world.client) == b""
        assert trio.current_time() - began_at == pytest.approx(IDLE_SECONDS_MAX)


async def test_a_head_in_drips_is_refused_after_its_time(autojump_clock: MockClock) -> None:
    async with served(Echo().serve) as world:
        await trio.sleep(IDLE_SECONDS_MAX / 2)
        began_at = trio.current_time()
        for byte in GET[: int(HEAD_SECONDS_MAX)]:
            await world.client.send_all(bytes([byte]))
            await trio.sleep(0.99)
        assert statuses_in(await everything_from(world.client)) == [408]
        assert trio.current_time() - began_at == pytest.approx(HEAD_SECONDS_MAX, abs=0.2)


async def test_a_body_in_drips_is_refused_to_its_handler(autojump_clock: MockClock) -> None:
    echo = Echo()
    async with served(echo.serve) as world:
        await world.client.send_all(CHUNKED)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip, world.client)
            began_at = trio.current_time()
            heard = await everything_from(world.client)
            assert trio.current_time() - began_at == pytest.approx(BODY_SECONDS, abs=0.2)
            nursery.cancel_scope.cancel()
    assert statuses_in(heard) == [408]
    assert echo.seen == [b"/", b"refused"]


async def drip(stream: SimulatedStream) -> None:
    while True:
        await send_what_goes(stream, b"1\r\nx\r\n")
        await trio.sleep(1)


async def test_a_body_at_the_pace_that_is_asked_for_is_taken(autojump_clock: MockClock) -> None:
    async with served(Echo().serve) as world:
        size = 30 * PACE_BYTES
        await world.client.send_all(POST + b"content-length: %d\r\n\r\n" % size)
        for _ in range(30):
            await trio.sleep(1)
            await world.client.send_all(bytes(PACE_BYTES))
        assert statuses_in(await world.client.receive_some()) == [200]


async def test_the_work_of_the_broker_does_not_count_as_time_of_the_client(autojump_clock: MockClock) -> None:
    post = b"POST /parts HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    async with served(Echo().serve) as world:
        await world.client.send_all(post)
        for _ in range(5):
            await world.client.send_all(b"2\r\nxx\r\n")
            await trio.sleep(BODY_SECONDS + 1)
        await world.client.send_all(b"0\r\n\r\n")
        assert statuses_in(await world.client.receive_some()) == [200]


async def test_a_client_that_does_not_read_is_cut_off(autojump_clock: MockClock) -> None:
    async with served(Echo().serve) as world:
        await world.client.send_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
        began_at = trio.current_time()
        await world.ended.wait()
        assert trio.current_time() - began_at == pytest.approx(ANSWER_SECONDS, rel=0.01)


async def test_a_client_that_was_quick_may_not_rest_for_long(autojump_clock: MockClock) -> None:
    """Nor hold what is kept of its body."""
    async with served(Echo().serve) as world:
        await world.client.send_all(POST + b"content-length: %d\r\n\r\n" % SIZE_MAX + bytes(SIZE_MAX - 1))
        assert statuses_in(await everything_from(world.client)) == [408]
        assert trio.current_time() == pytest.approx(BODY_SECONDS, abs=0.2)


async def test_a_client_that_reads_slowly_but_steadily_gets_all(autojump_clock: MockClock) -> None:
    async with served(Echo().serve) as world:
        world.link.slow_down((1.0, 1.0), 2 * PACE_BYTES)
        await world.client.send_all(b"GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert len(bodies_in(await everything_from(world.client))[0]) == LARGE


# Clients that vanish


@pytest.mark.parametrize("sent", [GET[:-3], POST + b"content-length: 100\r\n\r\nhal", CHUNKED + b"5\r\nhe"])
async def test_a_client_that_vanishes_while_it_sends_leaves_nothing_behind(
    sent: bytes, autojump_clock: MockClock
) -> None:
    async with served(Echo().serve) as world:
        await world.client.send_all(sent)
        await trio.sleep(0.5)
        world.link.cut()
        await world.ended.wait()


async def test_a_client_that_vanishes_while_it_is_answered_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    async with served(Echo().serve) as world:
        await world.client.send_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
        await world.client.receive_some(1_000)
        assert world.budgets.answers.taken >= LARGE
        world.link.cut()
        await world.ended.wait()


async def test_a_long_poll_ends_with_its_client(autojump_clock: MockClock) -> None:
    echo = Echo()
    async with served(echo.serve) as world:
        await world.client.send_all(b"GET /poll HTTP/1.1\r\nhost: a\r\n\r\n")
        await trio.sleep(5)
        world.client.close()
        await world.ended.wait()
        assert trio.current_time() < 20
    assert echo.seen == [b"/poll", b"gone"]


async def test_what_a_client_sends_during_a_long_poll_is_its_next_request(autojump_clock: MockClock) -> None:
    async with served(Echo().serve) as world:
        await world.client.send_all(b"GET /poll HTTP/1.1\r\nhost: a\r\n\r\n")
        await trio.sleep(5)
        await world.client.send_all(GET + b"connection: close\r\n\r\n")
        assert bodies_in(await everything_from(world.client)) == [b"nothing", b""]


# Budgets, and the end


async def test_bodies_that_do_not_fit_together_are_refused_and_may_come_again(autojump_clock: MockClock) -> None:
    async with served(Echo().serve, bodies=1_000) as world:
        world.budgets.bodies.take(900)
        post = POST + b"content-length: 500\r\n\r\n" + bytes(500)
        await world.client.send_all(post)
        assert statuses_in(await everything_from(world.client)) == [503]
        world.budgets.bodies.give_back(900)
    assert statuses_in(await talk(post)) == [200]


async def test_a_body_that_is_read_by_parts_has_no_limit_in_all(autojump_clock: MockClock) -> None:
    async with served(Echo().serve, bodies=100_000) as world:
        world.budgets.bodies.take(10_000)
        await world.client.send_all(b"POST /parts HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(30):
            await world.client.send_all(b"1\r\nx\r\n")
            await world.client.send_all(b"4e20\r\n" + bytes(20_000) + b"\r\n")
        await world.client.send_all(b"0\r\n\r\n")
        assert statuses_in(await world.client.receive_some()) == [200]
        world.budgets.bodies.give_back(10_000)


async def test_an_answer_that_does_not_fit_is_refused_and_the_refusal_always_fits(
    autojump_clock: MockClock,
) -> None:
    async def serve(exchange: Exchange) -> None:
        try:
            await exchange.answer(Response(body=bytes(LARGE)))
        except Overloaded as error:
            await exchange.answer(refused(exchange.request_id, error))

    async with served(serve, answers=LARGE) as world:
        world.budgets.answers.take(LARGE)
        await world.client.send_all(ONE + ONE)
        await world.client.send_eof()
        assert statuses_in(await everything_from(world.client)) == [503, 503]
        world.budgets.answers.give_back(LARGE)


async def test_when_the_broker_leaves_an_idle_connection_ends_and_a_busy_one_has_its_answer(
    autojump_clock: MockClock,
) -> None:
    async with served(Echo().serve) as idle:
        await trio.sleep(1)
        idle.connection.leave()
        assert await everything_from(idle.client) == b""
        assert trio.current_time() == pytest.approx(1, abs=0.1)
    async with served(Echo().serve) as busy:
        await busy.client.send_all(b"GET /pieces HTTP/1.1\r\nhost: a\r\n\r\n" + ONE)
        await trio.sleep(0.5)
        busy.connection.leave()
        heard = await everything_from(busy.client)
        assert statuses_in(heard) == [200], "the next one is not taken"
        assert heard.endswith(LAST_CHUNK)
