"""PublishRun over HTTP: forms of values, failures of some, repeats, lines."""

import json
from base64 import b64encode

import pytest
import trio
from trio.testing import MockClock

import goqueue
from tests.http.world import ask, connected


async def read_all(client: goqueue.Client, topic: str = "orders") -> list[goqueue.Message]:
    return [message async for message in client.read(topic, end="latest")]


async def test_each_form_of_a_value_is_stored_as_its_bytes(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        answer = await http.ask(
            "POST",
            "/topics/orders/messages",
            {
                "messages": [
                    {"value": "grün"},
                    {"key": "k", "value": "v"},
                    {"value_base64": b64encode(b"\x00\xff").decode()},
                    {"value_json": {"b": 1, "a": [None, "ü"]}, "priority": "high"},
                    {"key_base64": "AP8=", "value": None, "headers": {"a": "1", "b": {"base64": "AA=="}}},
                ]
            },
        )
        assert answer.status == 200, answer.body
        assert answer.json()["results"] == [{"partition": 0, "offset": number} for number in range(5)]
        messages = await read_all(client)
        assert [each.value for each in messages] == [
            "grün".encode(),
            b"v",
            b"\x00\xff",
            '{"b":1,"a":[null,"ü"]}'.encode(),
            None,
        ]
        assert [each.key for each in messages] == [None, b"k", None, None, b"\x00\xff"]
        assert messages[3].priority is goqueue.Priority.HIGH
        assert messages[4].headers == {"a": b"1", "b": b"\x00"}


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
async def test_whole_numbers_in_json_keep_all_their_digits(kind: str, autojump_clock: MockClock) -> None:
    """A parser that rounds them would change what others sent, and nobody would know."""
    messages = [{"value_json": {"wei": 10**21 + number}} for number in range(3)]
    lines = "\n".join([*map(json.dumps, messages), '{"value": "x"}', "{"])
    body = json.dumps({"messages": messages}) if kind == "application/json" else lines
    async with goqueue.testing.machine() as machine, machine.client() as client:
        await client.create_topic("orders", partitions=1)
        await ask(machine, "POST", "/topics/orders/messages", body.encode(), content_type=kind)
        assert [each.value for each in await read_all(client)][:3] == [
            b'{"wei":1000000000000000000000}',
            b'{"wei":1000000000000000000001}',
            b'{"wei":1000000000000000000002}',
        ]


async def test_a_message_that_is_wrong_in_itself_is_refused_alone(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1, config={"max_message_bytes": 1_000})
        wrong = [
            {"value": {"a": 1}},
            {"value_base64": "%"},
            {"value": "v", "colour": "red"},
            {"value": "v", "value_json": 1},
            {"key": "k"},
            {"value": "v", "partition": 7},
            {"value": "x" * 2_000},
            "text",
        ]
        answer = await http.ask("POST", "/topics/orders/messages", {"messages": [{"value": "good"}, *wrong]})
        results = answer.json()["results"]
        assert answer.status == 207
        assert results[0] == {"partition": 0, "offset": 0}
        assert [each["code"] for each in results[1:]] == [
            *["invalid_request"] * 5,
            "unknown_partition",
            "too_large",
            "invalid_request",
        ]
        assert "value_json" in results[1]["message"]
        assert "'colour'" in results[3]["message"]
        all_wrong = await http.ask("POST", "/topics/orders/messages", {"messages": wrong})
        assert all_wrong.status == 413, "the worst of them"
        assert [each.value for each in await read_all(client)] == [b"good"]


async def test_a_repeat_under_the_same_key_is_written_once(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client:
        await client.create_topic("orders", partitions=3)
        body = {"messages": [{"value": "a"}, {"value": "b", "key": "k"}, {"value": "c", "message_id": "mine"}]}
        first = await ask(machine, "POST", "/topics/orders/messages", body, idempotency_key="K")
        again = await ask(machine, "POST", "/topics/orders/messages", body, idempotency_key="K")
        assert (first.status, again.status) == (200, 200)
        repeated = [{**each, "repeated": True} for each in first.json()["results"]]
        assert again.json()["results"] == repeated
        assert len(await read_all(client)) == 3


async def test_a_repeat_of_many_messages_has_all_their_offsets(autojump_clock: MockClock) -> None:
    """Beyond what one batch takes; the same id twice in a request is one message."""
    async with goqueue.testing.machine() as machine, machine.client() as client:
        await client.create_topic("orders", partitions=1)
        body = {"messages": [{"value": str(number)} for number in range(2_500)]}
        path = "/topics/orders/messages"
        first = (await ask(machine, "POST", path, body, idempotency_key="K")).json()["results"]
        again = (await ask(machine, "POST", path, body, idempotency_key="K")).json()["results"]
        assert [each["offset"] for each in first] == list(range(2_500))
        assert again == [{**each, "repeated": True} for each in first]
        same = {"messages": [{"value": "x", "message_id": "one"} for _ in range(1_500)]}
        results = (await ask(machine, "POST", path, same)).json()["results"]
        assert {each["offset"] for each in results} == {2_500}
        assert ["repeated" in each for each in results] == [False] + [True] * 1_499


async def test_lines_are_published_as_they_come_and_each_failure_is_named(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        lines = [json.dumps({"value": str(number)}) for number in range(2_500)]
        lines[7] = "{"
        body = "\n".join(lines).encode()
        answer = await http.ask(
            "POST",
            "/topics/orders/messages",
            body,
            {"content-type": "application/x-ndjson", "idempotency-key": "K"},
        )
        told = [json.loads(line) for line in answer.body.splitlines()]
        assert (answer.status, sum(each["published"] for each in told)) == (207, 2_499)
        [failed] = [failure for each in told for failure in each["failed"]]
        assert (failed["line"], failed["code"]) == (8, "invalid_request")
        again = await http.ask(
            "POST",
            "/topics/orders/messages",
            body,
            {"content-type": "application/x-ndjson", "idempotency-key": "K"},
        )
        told = [json.loads(line) for line in again.body.splitlines()]
        assert (again.status, sum(each["repeated"] for each in told)) == (207, 2_499)
        expected = [str(number).encode() for number in range(2_500) if number != 7]
        assert [each.value for each in await read_all(client)] == expected


async def test_a_body_can_be_the_value_itself(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=2)
        value = bytes(range(256)) * 4_096
        answer = await http.ask(
            "POST",
            "/topics/orders/messages?key=k&priority=low&partition=1",
            value,
            {"content-type": "application/octet-stream"},
        )
        assert answer.json() == {"results": [{"partition": 1, "offset": 0}]}
        [message] = await read_all(client)
        assert (message.value, message.key, message.priority) == (value, b"k", goqueue.Priority.LOW)


async def test_a_topic_that_was_made_again_takes_messages(autojump_clock: MockClock) -> None:
    """Its id is another one, which the gateway finds out by itself."""
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        for _ in range(2):
            await client.create_topic("orders", partitions=1)
            answer = await http.ask("POST", "/topics/orders/messages", {"messages": [{"value": "v"}]})
            assert answer.json() == {"results": [{"partition": 0, "offset": 0}]}
            await client.delete_topic("orders")
        gone = await http.ask("POST", "/topics/orders/messages", {"messages": [{"value": "v"}]})
        assert (gone.status, gone.json()["code"]) == (404, "unknown_topic")


async def test_messages_without_a_key_go_round_the_partitions(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=3)
        partitions = set()
        for _ in range(3):
            answer = await http.ask("POST", "/topics/orders/messages?acks=leader", {"messages": [{"value": "v"}]})
            partitions.add(answer.json()["results"][0]["partition"])
        assert partitions == {0, 1, 2}


async def test_order_holds_when_the_broker_refuses_some_of_a_partition(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1, config={"max_message_bytes": 10_000})
        values = [("x" * 20_000 if number % 50 == 0 else f"{number:05} " * 1_000) for number in range(300)]
        answer = await http.ask(
            "POST", "/topics/orders/messages", {"messages": [{"value": each} for each in values]}
        )
        assert answer.status == 207
        expected = [each.encode() for each in values if len(each) < 10_000]
        assert [each.value for each in await read_all(client)] == expected
        offsets = [each["offset"] for each in answer.json()["results"] if "offset" in each]
        assert offsets == list(range(len(expected)))


async def test_nothing_is_waited_for_without_acks(autojump_clock: MockClock) -> None:
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        answer = await http.ask("POST", "/topics/orders/messages?acks=none", {"messages": [{"value": "v"}]})
        assert answer.json() == {"results": [{"partition": 0, "offset": None}]}
        await trio.sleep(1)
        assert [each.value for each in await read_all(client)] == [b"v"]


async def test_messages_that_do_not_fit_their_schema_are_named_one_by_one(autojump_clock: MockClock) -> None:
    schema = {"type": "object", "properties": {"price": {"type": "number"}}}
    good, bad = {"value_json": {"price": 1}}, {"value_json": {"price": "a secret"}}
    async with goqueue.testing.machine() as machine, machine.client() as client, connected(machine) as http:
        await client.create_topic("orders", partitions=1)
        await client.register_schema("orders-value", schema)
        some = await http.ask("POST", "/topics/orders/messages", {"messages": [good, bad, good]})
        assert some.status == 207
        first, refused, last = some.json()["results"]
        assert (first["offset"], last["offset"]) == (0, 1)
        assert (refused["code"], refused["retryable"]) == ("schema_refused", False)
        assert refused["message"] == '$.price: type "number"; subject orders-value, version 1'
        none = await http.ask("POST", "/topics/orders/messages", {"messages": [bad, bad]})
        assert none.status == 422
