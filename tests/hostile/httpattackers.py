"""Those who mean harm at the HTTP port, from heads that never end to bodies that only look right.

Each takes a stream of its own and a generator, as the attackers of the websocket port do.
"""

import json
from random import Random
from typing import Any

import trio

from tests.hostile.attackers import (
    FLOOD_PAUSE,
    UPGRADE,
    Attack,
    endless_header,
    flood,
    gone_at_once,
    noise,
    silence,
    until_thrown_out,
)
from tests.http.server.transcripts import SMUGGLED

HOST = b"Host: 127.0.0.1\r\n"
JSON = HOST + b"Content-Type: application/json\r\n"
MESSAGES = b"/topics/orders/messages"
TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
PATHS = (
    b"/topics/../../etc/passwd",
    b"/topics/%2e%2e%2f%2e%2e%2fetc%2fpasswd/partitions/0/messages",
    b"/topics/" + b"%00" * 100,
    b"/topics/" + b"a" * 10_000,
    b"/" * 8_000,
    b"//evil.example/topics",
    b"/topics/%ff",
    b"/topics/orders/messages?" + b"&".join(b"p%d=1" % number for number in range(1_000)),
    b"/topics/orders/messages?cursor=" + b",".join(b"%d:1" % number for number in range(1_000)),
    b"/topics/orders/partitions/99999999999999999999/messages/99999999999999999999",
    b"http://evil.example/topics",
    b"*",
    b"/v1/v1/v1",
    b"/subjects/../../etc/passwd/versions",
    b"/subjects/%00%0a/versions/-1",
    b"/subjects/" + b"a" * 10_000 + b"/versions/latest",
    b"/subjects/siege/versions/99999999999999999999?permanent=true",
    b"/subjects/siege/metadata?" + b"&".join([b"key=x&value=y"] * 40),
    b"/schemas" * 1_000,
    b"/schemas/ids/-1",
)
# None of these publishes anything: the topic has one partition.
BODIES: tuple[Any, ...] = (
    None,
    [],
    "text",
    1e308,
    {"messages": None},
    {"messages": [None] * 9_000},
    {"messages": [{"value": {"a": 1}}, {"value_base64": "%"}, {"colour": "red"}, 7, [], {"value": "v", "ttl": -1}]},
    {"messages": [{"value": "v", "partition": 10**18, "priority": "?", "deliver_at": "soon"}] * 100},
    {"messages": [{"value": "v", "partition": 99, "headers": {"x" * 300: "y" * 70_000}}]},
    {"messages": [], "more": 1},
    {"records": [{"value": "v"}]},
    {"schema": {"type": "object"}},
    {"schema": "[" * 40_000},
    {"schema": '{"not":' * 20_000},
    {
        "schema": '{"pattern": "(a+)+$(a+)+$"}',
        "references": [{"name": "x", "subject": "siege", "version": 1}] * 300,
    },
    {"schema": '{"$ref": "http://127.0.0.1:1/"}', "metadata": {"properties": {"x": None}}, "ruleSet": {}},
    {"schema": json.dumps({"enum": list(range(100_000))})},
    {"schema": json.dumps({"description": "x" * 2_000_000})},
    {"compatibility": "SIDEWAYS", "overrideRuleSet": {"x": 1}},
)
REGISTRY_TARGETS = (
    b"/subjects/siege/versions",
    b"/subjects/siege",
    b"/schemas/compatibility/subjects/siege/versions/latest",
)
RAW_BODIES = (
    b"[" * 1_048_576,
    b'{"a":1},' * 131_072,
    b'{"messages":[' + b'{"value":[]},' * 60_000 + b"0]}",
    b'{"messages":' * 2_000,
    b'{"messages":["\\ud800"]}',
    b"\xff\xfe\x00",
    b'{"messages":[{"partition":99,"value":"' + b"\\u0000" * 100_000 + b'"}]}',
    b"1" * 1_000_000,
    b'"' + b"x" * 5_000_000,
)


def get(target: bytes, *headers: bytes) -> bytes:
    return b"GET %b HTTP/1.1\r\n%b%b\r\n" % (target, HOST, b"".join(headers))


def post(target: bytes, body: bytes, kind: bytes = JSON) -> bytes:
    return b"POST %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (target, kind, len(body), body)


async def tls(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await stream.send_all(TLS_HELLO)
    await until_thrown_out(stream)


async def websocket_at_the_wrong_port(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await stream.send_all(UPGRADE)
    await until_thrown_out(stream)


async def smuggled(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    """With a request behind that must never be served."""
    await stream.send_all(
        random.choice(SMUGGLED).sent + b"DELETE /topics/orders HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    )
    await stream.send_eof()
    await until_thrown_out(stream)


async def a_head_in_drips(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    for byte in get(MESSAGES, b"X: %b\r\n" % (b"y" * 100)):
        await stream.send_all(bytes([byte]))
        await trio.sleep(0.9)


async def a_body_in_drips(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await stream.send_all(b"POST %b HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n" % (MESSAGES, JSON))
    while True:
        await stream.send_all(b"1\r\n[\r\n")
        await trio.sleep(1)


async def a_body_that_never_comes(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    length = random.choice((1, 1_000, 4_000_000))
    await stream.send_all(b"POST %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n" % (MESSAGES, JSON, length))
    await until_thrown_out(stream)


async def a_body_without_end(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    kind = random.choice((b"application/json", b"application/octet-stream", b"application/x-ndjson"))
    head = b"POST %b HTTP/1.1\r\n%bContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % (MESSAGES, HOST, kind)
    await stream.send_all(head)
    for _ in range(40):
        await flood(stream, b"3e8\r\n%b\r\n" % (b"x" * 1_000))
    await until_thrown_out(stream)


async def tiny_chunks(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await stream.send_all(b"POST %b HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n" % (MESSAGES, JSON))
    await flood(stream, b"1;%b\r\n[\r\n" % (b"x" * random.choice((0, 200))))
    await until_thrown_out(stream)


async def hostile_json(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    for _ in range(5):
        body = random.choice((*RAW_BODIES, *(json.dumps(each).encode() for each in BODIES)))
        target = random.choice(
            (
                *(MESSAGES, b"/topics", b"/messages/ack", b"/groups/siege/join", b"/groups/siege/offsets"),
                *REGISTRY_TARGETS,
            )
        )
        await stream.send_all(post(target, body))
        if not await stream.receive_some(65_536):
            return


async def hostile_lines(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    lines = [
        random.choice((b"{", b"null", b"[" * 1_000, b'{"value":1}', b'{"value":"v","partition":99}'))
        for _ in range(5_000)
    ]
    await stream.send_all(post(MESSAGES, b"\n".join(lines), HOST + b"Content-Type: application/x-ndjson\r\n"))
    await trio.sleep(20)


async def path_tricks(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    for _ in range(10):
        method = random.choice((b"GET", b"HEAD", b"DELETE", b"TRACE", b"X" * 1_000))
        await stream.send_all(b"%b %b HTTP/1.1\r\n%b\r\n" % (method, random.choice(PATHS), HOST))
        if not await stream.receive_some(65_536):
            return


async def pipelined(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    """Thousands of requests, and no answer is read."""
    await flood(stream, random.choice((get(b"/topics"), get(b"/docs"), get(b"/stats"), get(b"/nowhere"))))
    await trio.sleep(20)


async def answers_that_nobody_reads(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await stream.send_all(get(b"/topics/orders/messages?limit=1000&max_bytes=16777216") * 100)
    await trio.sleep(60)


async def polls_of_those_who_leave(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await stream.send_all(get(b"/topics/orders/messages?offset=latest&wait=60"))
    await trio.sleep(random.random())


async def streams_that_nobody_reads(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await stream.send_all(get(b"/topics/orders/messages?follow=true", b"Accept: text/event-stream\r\n"))
    await trio.sleep(60)


async def members_that_never_poll(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    for number in range(200):
        member = f"hostile-{random.getrandbits(32):x}-{number}"
        body = {"topics": ["orders"], "member_id": member, "session_timeout": 1}
        await stream.send_all(post(b"/groups/siege-http/join", json.dumps(body).encode()))
        if not await stream.receive_some(65_536):
            return
        await trio.sleep(FLOOD_PAUSE)


async def receipts_of_nobody(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    receipts = [f"siege:orders:0:{number}:1:{random.getrandbits(48):012x}" for number in range(9_000)]
    await stream.send_all(post(b"/messages/ack", json.dumps({"receipts": receipts}).encode()))
    await trio.sleep(20)


async def wait_for_a_message(stream: trio.abc.HalfCloseableStream) -> None:
    """Nobody means harm by it, but there may be hundreds."""
    await stream.send_all(get(b"/topics/orders/messages?offset=latest&wait=60&max_bytes=1"))


HTTP_ATTACKS: tuple[Attack, ...] = (
    noise,
    silence,
    gone_at_once,
    endless_header,
    tls,
    websocket_at_the_wrong_port,
    smuggled,
    a_head_in_drips,
    a_body_in_drips,
    a_body_that_never_comes,
    a_body_without_end,
    tiny_chunks,
    hostile_json,
    hostile_lines,
    path_tricks,
    pipelined,
    answers_that_nobody_reads,
    polls_of_those_who_leave,
    streams_that_nobody_reads,
    members_that_never_poll,
    receipts_of_nobody,
)
