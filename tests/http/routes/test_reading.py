"""Reading over HTTP: pages, cursors, single messages, streams that go on."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.testing.memory import Machine
from tests.http.world import HttpClient, ask, connected

NDJSON, EVENTS = {"accept": "application/x-ndjson"}, {"accept": "text/event-stream"}


@asynccontextmanager
async def world(partitions: int = 1) -> AsyncIterator[tuple[Machine, goqueue.Client, HttpClient]]:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=partitions)
        yield machine, client, http


async def publish(client: goqueue.Client, values: Sequence[bytes], delay: float | None = None) -> None:
    for value in values:
        await client.publish("orders", value, delay=delay)


async def page(http: HttpClient, query: str = "", path: str = "/topics/orders/messages") -> dict[str, Any]:
    answer = await http.ask("GET", f"{path}?{query}")
    assert answer.status == 200, answer.body
    return dict(answer.json())


def values(answer: dict[str, Any]) -> list[str]:
    return [each["value"] for each in answer["messages"]]


async def test_a_cursor_goes_through_all_partitions_and_each_message_comes_once(autojump_clock: MockClock) -> None:
    async with world(partitions=3) as (_, client, http):
        await publish(client, [f"{number}".encode() for number in range(30)])
        await client.publish("orders", b"keyed", key=b"k")
        found, query = list[str](), "limit=7"
        while (answer := await page(http, query))["messages"]:
            assert len(answer["messages"]) <= 7
            found += values(answer)
            query = f"limit=7&cursor={answer['next']}"
        assert sorted(found) == sorted([*(str(number) for number in range(30)), "keyed"])
        assert answer["next"] == query.rpartition("=")[2], "the end stays where it is"


async def test_a_page_begins_where_it_is_asked_to(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        for number in range(3):
            await client.publish("orders", b"%d" % number)
            await trio.sleep(10)
        path = "/topics/orders/partitions/0/messages"
        assert (await http.ask("GET", "/topics/orders/messages?offset=1")).status == 400, "of which partition?"
        assert values(await page(http, "offset=1", path)) == ["1", "2"]
        assert values(await page(http, "partition=0&offset=earliest")) == ["0", "1", "2"]
        assert values(await page(http, "offset=latest", path)) == []
        second = (await page(http))["messages"][1]
        assert values(await page(http, f"from_time={second['timestamp']}")) == ["1", "2"]
        assert values(await page(http, "from_time=2001-01-01")) == ["0", "1", "2"]
        assert values(await page(http, "from_time=2999-01-01")) == []


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("partition=1", 404, "unknown_partition"),
        ("partition=0&offset=7", 416, "offset_out_of_range"),
        ("partition=0&offset=9223372036854775808", 400, "protocol_error"),
        ("offset=-1", 400, "invalid_request"),
        ("offset=x", 400, "invalid_request"),
        ("from_time=nan", 400, "invalid_request"),
        ("from_time=inf", 400, "invalid_request"),
        ("from_time=soon", 400, "invalid_request"),
        ("cursor=0:1,", 400, "invalid_request"),
        ("cursor=7:1", 404, "unknown_partition"),
        ("offset=0&cursor=0:0", 400, "invalid_request"),
        ("limit=0", 400, "invalid_request"),
        ("limit=1001", 400, "invalid_request"),
        ("wait=61", 400, "invalid_request"),
        ("max_bytes=0", 400, "invalid_request"),
        ("max_bytes=16777217", 400, "invalid_request"),
        ("encoding=xml", 400, "invalid_request"),
        ("colour=red", 400, "invalid_request"),
    ],
)
async def test_what_cannot_be_read_is_refused_with_its_reason(
    query: str, status: int, code: str, autojump_clock: MockClock
) -> None:
    async with world() as (_, _, http):
        refused = await http.ask("GET", f"/topics/orders/messages?{query}")
        assert (refused.status, refused.json()["code"]) == (status, code), refused.body


async def test_what_was_deleted_is_gone_and_says_where_to_go_on(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        await publish(client, [b"v"] * 10)
        deleted = await http.ask("POST", "/topics/orders/partitions/0/delete-before", {"offset": 10})
        assert deleted.status == 204
        gone = await http.ask("GET", "/topics/orders/messages?partition=0&offset=2")
        assert (gone.status, gone.json()["code"], gone.json()["details"]["start"]) == (
            410,
            "offset_out_of_range",
            10,
        )
        one = await http.ask("GET", "/topics/orders/partitions/0/messages/2")
        assert one.status == 410
        above = await http.ask("POST", "/topics/orders/partitions/0/delete-before", {"offset": 11})
        assert (above.status, above.json()["code"]) == (416, "offset_out_of_range"), above.body


async def test_an_answer_holds_one_message_at_least_and_max_bytes_at_most(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        await publish(client, [b"x" * 1_000 for _ in range(10)])
        assert len((await page(http, "max_bytes=1"))["messages"]) == 1
        assert len((await page(http, "max_bytes=3500"))["messages"]) == 3
        large = await page(http, "max_bytes=3500&cursor=0:9")
        assert len(large["messages"]) == 1


async def test_a_page_waits_for_its_first_message(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        began_at = trio.current_time()
        assert (await page(http, "wait=20"))["messages"] == []
        assert trio.current_time() - began_at == pytest.approx(20, abs=0.5)
        async with trio.open_nursery() as nursery:
            found: list[str] = []

            async def wait() -> None:
                found.extend(values(await page(http, "wait=60")))

            nursery.start_soon(wait)
            await trio.sleep(5)
            await client.publish("orders", b"late")
        assert found == ["late"]
        assert trio.current_time() - began_at < 40


async def test_a_stretch_of_hidden_messages_is_passed_over(autojump_clock: MockClock) -> None:
    """Delayed messages lie in the log, and readers do not see them before they are due."""
    async with world() as (_, client, http):
        await publish(client, [b"x" * 100_000 for _ in range(30)], delay=3_600)
        await client.publish("orders", b"now")
        assert values(await page(http)) == ["now"]


async def test_a_value_comes_in_the_form_that_is_asked_for(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        published: Sequence[bytes | None] = ["grün".encode(), b"\x00\x01", b"\xff", b'{\r\n"a": [1]}', None]
        for each in published:
            await client.publish("orders", each, key=b"k", headers={"a": b"1", "b": b"\xff"})
        shown = {
            form: (await page(http, f"encoding={form}"))["messages"] for form in ("auto", "text", "base64", "json")
        }
        fields = {
            form: [{name: each[name] for name in each if name.startswith("value")} for each in messages]
            for form, messages in shown.items()
        }
        text, zero, one, two = (
            {"value": "grün"},
            {"value": "\x00\x01"},
            {"value_base64": "AAE="},
            {"value_base64": "/w=="},
        )
        pretty = '{\r\n"a": [1]}'
        assert fields["auto"] == [text, one, two, {"value": pretty}, {"value": None}]
        assert fields["text"] == [text, zero, two, {"value": pretty}, {"value": None}]
        assert fields["base64"][3:] == [{"value_base64": "ew0KImEiOiBbMV19"}, {"value": None}]
        assert fields["json"] == [
            {"value_base64": "Z3LDvG4="},
            one,
            two,
            {"value_json": {"a": [1]}},
            {"value": None},
        ]
        assert shown["auto"][0]["headers"] == {"a": "1", "b": {"base64": "/w=="}}


async def test_one_message_and_its_value_are_shown(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        await client.publish("orders", b"<script>", key=b"k")
        one = await http.ask("GET", "/topics/orders/partitions/0/messages/0?encoding=base64")
        assert one.json() | {"timestamp": 0} == {
            "topic": "orders",
            "partition": 0,
            "offset": 0,
            "timestamp": 0,
            "key": "k",
            "value_base64": "PHNjcmlwdD4=",
            "headers": {},
            "priority": "normal",
        }
        value = await http.ask("GET", "/topics/orders/partitions/0/messages/0/value")
        assert value.body == b"<script>"
        assert value.headers["content-type"] == "application/octet-stream"
        assert value.headers["content-disposition"] == "attachment"
        for path, status in [
            ("0/messages/1", 404),
            ("0/messages/2", 416),
            ("1/messages/0", 404),
            ("0/messages/x", 400),
        ]:
            refused = await http.ask("GET", f"/topics/orders/partitions/{path}")
            assert refused.status == status, refused.body


async def test_a_message_of_a_topic_that_was_made_again_is_found(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        for value in (b"first", b"second"):
            await client.publish("orders", value)
            assert (await http.ask("GET", "/topics/orders/partitions/0/messages/0/value")).body == value
            await client.delete_topic("orders")
            await client.create_topic("orders", partitions=1)


# Streams


async def begin(http: HttpClient, target: str, headers: dict[str, str]) -> None:
    lines = [f"GET {target} HTTP/1.1", "host: 127.0.0.1", *(f"{name}: {each}" for name, each in headers.items())]
    await http.send("\r\n".join([*lines, "", ""]).encode())


class Stream:
    """The pieces of an answer that goes on, as text."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http
        self.heard = b""

    async def until(self, words: bytes, count: int = 1) -> bytes:
        while self.heard.count(words) < count:
            piece = await self._http.stream.receive_some()
            assert piece, self.heard
            self.heard += piece
        return self.heard


def events(heard: bytes) -> list[tuple[str, Any]]:
    """Ids and data of server-sent events."""
    found, name = list[tuple[str, Any]](), ""
    for line in heard.split(b"\n"):
        if line.startswith(b"id: "):
            name = line[4:].decode()
        elif line.startswith(b"data: "):
            found.append((name, json.loads(line[6:])))
    return found


async def test_a_stream_goes_on_with_what_is_published(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        await client.publish("orders", b"before")
        await begin(http, "/topics/orders/messages?follow=true", NDJSON)
        stream = Stream(http)
        assert b"content-type: application/x-ndjson" in await stream.until(b"before")
        for number in range(3):
            await trio.sleep(40)
            await client.publish("orders", b"later %d" % number)
            await stream.until(b"later %d" % number)
        lines = [line for line in stream.heard.split(b"\n") if line.startswith(b"{")]
        assert [json.loads(line)["value"] for line in lines] == ["before", "later 0", "later 1", "later 2"]


async def test_events_have_the_cursor_as_their_id_and_resume_there(autojump_clock: MockClock) -> None:
    async with world(partitions=2) as (machine, client, http):
        for number in range(6):
            await client.publish("orders", b"%d" % number, key=b"%d" % number)
        await begin(http, "/topics/orders/messages?follow=true&encoding=json", EVENTS)
        heard = events(await Stream(http).until(b"data: ", 6))
        assert len({name for name, _ in heard}) == 6
        for place, (name, _) in enumerate(heard):
            async with connected(machine, f"again {place}") as again:
                target = "/topics/orders/messages?follow=true&offset=latest&encoding=json&limit=5"
                await begin(again, target, {**EVENTS, "last-event-id": name})
                rest = heard[place + 1 :]
                if rest:
                    resumed = events(await Stream(again).until(b"data: ", len(rest)))
                    assert sorted(data["value_json"] for _, data in resumed) == sorted(
                        data["value_json"] for _, data in rest
                    ), "what was not seen comes, and nothing else"


async def test_json_with_line_ends_stays_on_one_line(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        await client.publish("orders", b'{\n"a":\r\n1}')
        await begin(http, "/topics/orders/messages?follow=true&encoding=json", EVENTS)
        assert events(await Stream(http).until(b"\n\n"))[0][1]["value_json"] == {"a": 1}


async def test_a_stream_says_that_it_is_alive_and_ends_at_its_limit(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        await begin(http, "/topics/orders/messages?follow=true&limit=2", EVENTS)
        stream = Stream(http)
        began_at = trio.current_time()
        await stream.until(b": nothing new\n\n", 4)
        assert 30 < trio.current_time() - began_at < 60
        await publish(client, [b"a", b"b", b"c"])
        assert b'"c"' not in await stream.until(b"0\r\n\r\n")


async def test_a_stream_that_cannot_begin_has_a_status(autojump_clock: MockClock) -> None:
    async with world() as (machine, _, http):
        refused = await http.ask("GET", "/topics/orders/messages?follow=true&partition=0&offset=5", None, EVENTS)
        assert (refused.status, refused.json()["code"]) == (416, "offset_out_of_range")
        html = await http.ask("GET", "/topics/orders/messages?follow=true", None, {"accept": "text/html"})
        assert (html.status, html.json()["code"]) == (406, "not_acceptable")
        head = await ask(machine, "HEAD", "/topics/orders/messages?follow=true")
        assert (head.status, head.body) == (200, b"")


async def test_a_stream_ends_when_its_topic_is_deleted_and_says_why(autojump_clock: MockClock) -> None:
    async with world() as (_, client, http):
        await begin(http, "/topics/orders/messages?follow=true", EVENTS)
        stream = Stream(http)
        await stream.until(b": nothing new")
        await client.delete_topic("orders")
        heard = await stream.until(b"0\r\n\r\n")
        assert b'event: error\ndata: {"code":"unknown_topic"' in heard


async def test_the_end_of_the_broker_ends_streams_and_answers_long_polls_empty(autojump_clock: MockClock) -> None:
    async with world() as (machine, _, http), connected(machine, "other") as waiting:
        await begin(http, "/topics/orders/messages?follow=true", NDJSON)
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                answer = await waiting.ask("GET", "/topics/orders/messages?wait=60")
                assert (answer.status, answer.json()["messages"]) == (200, [])
                assert answer.headers["connection"] == "close"

            nursery.start_soon(wait)
            await trio.sleep(1)
            await machine.stop()
        assert (await Stream(http).until(b"0\r\n\r\n")).endswith(b"0\r\n\r\n"), "a stream ends, and is not cut"
