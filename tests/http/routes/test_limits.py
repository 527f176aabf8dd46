"""What is too much, of the wrong type, or from somewhere else: clear refusals, in one form."""

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import goqueue
from goqueue.http.routes.publishing import LINES_MAX, MESSAGES_MAX
from goqueue.http.routing.reading import BRACKETS_MAX, JSON_SIZE_MAX
from goqueue.http.server.errors import Overloaded
from tests.http.routes.test_publishing import read_all
from tests.http.world import Answered, ask, connected

PIECE = 1024 * 1024
PATH = "/topics/orders/messages"
NDJSON = {"content-type": "application/x-ndjson"}
OCTETS = {"content-type": "application/octet-stream"}


@pytest.mark.parametrize(
    ("body", "headers", "status", "words"),
    [
        (b'{"messages":[' + b" " * JSON_SIZE_MAX + b"]}", {}, 413, "at most 4,194,304 bytes"),
        ({"messages": [{"value": "v"}] * (MESSAGES_MAX + 1)}, {}, 413, "10,001 messages"),
        (b'{"messages":[' + b"[]," * BRACKETS_MAX + b"1]}", {}, 413, "50,000 brackets and braces"),
        (bytes(16 * 1024 * 1024 + 1), OCTETS, 413, "at most 16,777,216 bytes"),
        (b"x" * (JSON_SIZE_MAX + 70_000), NDJSON, 413, "a line has at most"),
        ({"messages": []}, {"content-type": "text/plain"}, 415, "text/plain"),
        ({"messages": []}, {"content-type": "application/vnd.kafka.binary.v2+json"}, 415, "is Kafka's"),
        ({"messages": []}, {"content-encoding": "gzip"}, 415, "Content-Encoding"),
        ({"records": [{"value": "v"}]}, {}, 400, '{"messages"'),
        ({"messages": [], "acks": 1}, {}, 400, "no field 'acks'"),
        (b"{", {}, 400, "not JSON"),
        (b"", {}, 400, "not JSON"),
        ([], {}, 400, '{"messages"'),
        ({"messages": {}}, {}, 400, '{"messages"'),
        ({"messages": [], **{str(number): 1 for number in range(200_000)}}, {}, 400, "no field '0'"),
        ({"messages": []}, {"idempotency-key": "k" * 121}, 400, "Idempotency-Key"),
        ({"messages": []}, {"idempotency-key": ""}, 400, "Idempotency-Key"),
    ],
)
async def test_a_body_beyond_a_limit_is_refused_whole(
    body: Any, headers: dict[str, str], status: int, words: str, autojump_clock: MockClock
) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        refused = await http.ask("POST", PATH, body, headers)
        assert refused.status == status, refused.body
        assert words in refused.json()["message"]
        assert refused.json()["request_id"] == refused.headers["request-id"]
        assert await read_all(client) == []


async def test_lines_have_no_limit_in_all_and_a_line_of_the_answer_for_each_batch(
    autojump_clock: MockClock,
) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        lines = [json.dumps({"value": "x" * 1_000}) for _ in range(8_000)]
        answer = await http.ask("POST", PATH, "\n".join(["", *lines, "", ""]).encode(), NDJSON)
        told = [json.loads(line) for line in answer.body.splitlines()]
        assert (answer.status, sum(each["published"] for each in told)) == (200, 8_000)
        assert all(each["published"] <= LINES_MAX for each in told)
        assert told[0]["first"] == 2, "the number of its line"


async def test_what_was_published_is_told_whatever_follows_it(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        body = b'{"value":"v"}\n' * 100 + b"x" * (JSON_SIZE_MAX + 70_000)
        answer = await http.ask("POST", PATH, body, NDJSON)
        *batches, last = [json.loads(line) for line in answer.body.splitlines()]
        assert (answer.status, sum(each["published"] for each in batches)) == (207, 100)
        assert (last["code"], last["request_id"]) == ("too_large", answer.headers["request-id"])
        assert len(await read_all(client)) == 100


async def test_lines_that_all_fail_have_the_worst_status(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        answer = await http.ask("POST", PATH, b'{"value":1}\n{"value":"v","partition":9}\n', NDJSON)
        [told] = [json.loads(line) for line in answer.body.splitlines()]
        assert (answer.status, told["published"]) == (404, 0)
        assert [(each["line"], each["code"]) for each in told["failed"]] == [
            (1, "invalid_request"),
            (2, "unknown_partition"),
        ]


async def test_delete_needs_no_content_type_and_patch_none_either(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        await http.ask("POST", "/topics", {"name": "orders"})
        patched = await http.ask("PATCH", "/topics/orders", b'{"partitions": 4}', {"content-type": ""})
        assert patched.status == 200, patched.body
        zipped = await http.ask("PATCH", "/topics/orders", b"\x1f\x8b", {"content-encoding": "gzip"})
        assert zipped.status == 415
        assert (await http.ask("DELETE", "/topics/orders")).status == 204


async def test_a_partition_that_came_later_is_found(autojump_clock: MockClock) -> None:
    """Whoever added it, and however short ago."""
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        message = {"messages": [{"value": "v", "partition": 2}]}
        assert (await http.ask("POST", PATH, message)).status == 404
        await client.add_partitions("orders", 3)
        assert (await http.ask("POST", PATH, message)).json() == {"results": [{"partition": 2, "offset": 0}]}
        await trio.sleep(31)
        keyed = {"messages": [{"value": "v", "key": f"{number}"} for number in range(20)]}
        answer = await http.ask("POST", PATH, keyed)
        assert {each["partition"] for each in answer.json()["results"]} == {0, 1, 2}


async def test_bodies_that_do_not_fit_together_are_refused_for_now(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client:
        await client.create_topic("orders", partitions=1)
        refused: Answered | None = None
        async with trio.open_nursery() as nursery:
            for number in range(17):
                nursery.start_soon(hold_a_body, machine, number)
                await trio.sleep(0.1)  # so that the last one is refused, and no other
            refused = await ask(machine, "POST", PATH, {"messages": [{"value": "v"}]})
            nursery.cancel_scope.cancel()
        assert (refused.status, refused.json()["code"]) == (503, Overloaded.code)
        assert refused.headers["retry-after"] == "1"
        await trio.sleep(1)
        assert (await ask(machine, "POST", PATH, {"messages": [{"value": "v"}]})).status == 200


async def hold_a_body(machine: Any, number: int) -> None:
    """All but the last byte of a large one."""
    size = 16 * PIECE
    async with connected(machine, f"holder {number}") as http:
        head = f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/octet-stream\r\n"
        await http.send(f"{head}content-length: {size}\r\n\r\n".encode())
        for piece in [PIECE] * 15 + [PIECE - 1]:
            await http.send(bytes(piece))
            await trio.sleep(0.001)
        await trio.sleep_forever()


async def test_options_says_which_methods_there_are_and_lets_no_page_in(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        asked = {"access-control-request-method": "DELETE", "origin": "http://127.0.0.1:7711"}
        told = await http.ask("OPTIONS", "/topics/orders?x=1", headers=asked)
        assert (told.status, told.headers["allow"]) == (204, "DELETE, GET, HEAD, OPTIONS, PATCH")
        assert not [name for name in told.headers if name.startswith("access-control")]
        other = await http.ask("OPTIONS", "/topics", headers={"origin": "http://evil.example"})
        assert other.status == 403
        assert (await http.ask("OPTIONS", "/nowhere")).status == 404


async def test_a_path_is_taken_as_it_is(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, connected(machine) as http:
        await http.ask("POST", "/topics", {"name": "a.b"})
        assert (await http.ask("GET", "/topics/a%2Eb")).status == 200
        assert (await http.ask("GET", "/v1/topics/a.b")).status == 200
        for path, status in [
            ("/topics/", 404),
            ("/topics/a.b/", 404),
            ("//topics", 404),
            ("/topics/a%2Fb", 404),
            ("/topics/..", 404),
            ("/topics/../topics", 404),
            ("/topics/%00", 404),
            ("/topics/%zz", 400),
            ("/topics?", 200),
            ("/topics?limit=1&limit=2", 400),
        ]:
            answer = await http.ask("GET", path)
            assert answer.status == status, (path, answer.body)
            assert "location" not in answer.headers


async def test_head_is_answered_where_get_is_and_takes_nothing(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        await client.publish("orders", b"v")
        got, head = [await http.ask(method, "/topics/orders") for method in ("GET", "HEAD")]
        assert (head.status, head.headers["content-length"]) == (200, got.headers["content-length"])
        await http.ask("POST", "/groups/g/join", {"topics": ["orders"], "member_id": "m"})
        refused = await http.ask("HEAD", "/groups/g/poll?member_id=m&timeout=0")
        assert (refused.status, refused.headers["allow"]) == (405, "GET, OPTIONS")
