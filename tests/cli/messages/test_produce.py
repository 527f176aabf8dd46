"""`goqueue produce`, against a broker on loopback."""

import json
import logging
import os
import pty
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import trio
import trio.testing
from click.testing import CliRunner

import goqueue
from goqueue.cli import main
from goqueue.cli.messages.input import message_in_json, message_in_line
from goqueue.cli.messages.produce import LINE_SIZE_MAX, BadLine, Line, Production, _telling_why_it_waits, lines_of
from goqueue.environment import SystemClock, TcpNetwork
from goqueue.storage.disk.disk import RealDisk
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url:
        async with goqueue.connect(url) as client:
            await client.create_topic("orders")
        yield Shell(url)


async def stored(shell: Shell) -> list[goqueue.Message]:
    async with goqueue.connect(shell.url) as client:
        return [message async for message in client.read("orders", end="latest")]


async def values(shell: Shell) -> list[bytes]:
    return sorted([message.value for message in await stored(shell)])


async def test_each_line_is_a_value_and_stdout_says_nothing(shell: Shell) -> None:
    result = await shell("produce", "orders", stdin=b"one\n\n\xff two\nthree")
    assert (result.exit_code, result.stdout) == (0, "")
    assert await values(shell) == [b"", b"one", b"three", b"\xff two"]


async def test_a_key_stands_before_the_separator_and_keeps_its_order(shell: Shell) -> None:
    """G4"""
    lines = [b"%d::%d" % (number % 2, number) for number in range(84)]
    result = await shell("produce", "orders", "--key-separator", "::", stdin=b"\n".join(lines))
    assert result.exit_code == 0
    found: dict[bytes | None, list[int]] = {}
    for message in await stored(shell):
        found.setdefault(message.key, []).append(int(message.value))
    assert found == {b"%d" % key: list(range(key, 84, 2)) for key in range(2)}


class SlowProducer:
    """Confirms the earlier the later it was asked: who does not wait is overtaken."""

    def __init__(self) -> None:
        self.confirmed: list[tuple[bytes | None, int]] = []

    async def __aenter__(self) -> "SlowProducer":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send_many(
        self, values: Sequence[bytes], keys: Sequence[bytes | None], *, partition: int
    ) -> list[goqueue.Published]:
        await trio.sleep(10 / (1 + int(values[0])))
        self.confirmed += zip(keys, map(int, values), strict=True)
        return [goqueue.Published("orders", partition, 0) for _ in values]


class SlowClient(goqueue.Client):
    def __init__(self) -> None:
        super().__init__("127.0.0.1", 1, "never connected", TcpNetwork(), SystemClock())
        self.slow = SlowProducer()

    async def topic(self, name: str) -> goqueue.Topic:
        return goqueue.Topic(name, UUID(int=0), {}, [goqueue.Partition(number, 0, 0) for number in range(3)])

    def producer(self, topic: str, **options: Any) -> Any:
        return self.slow


async def test_no_line_overtakes_another_of_its_key(autojump_clock: trio.testing.MockClock) -> None:
    """G4"""
    client, chunks = SlowClient(), [b"a:0\nb:1\n", b"a:2\nb:3\na:4\n", b"a:5\nb:6\n", b""]

    async def read() -> bytes:
        return chunks.pop(0)

    production = Production(client, "orders", lambda _: None, lambda _size: None)
    await production.run(lines_of(read), lambda line: message_in_line(line, b":"))
    of_each = {key: [number for each, number in client.slow.confirmed if each == key] for key in (b"a", b"b")}
    assert of_each == {b"a": [0, 2, 4, 5], b"b": [1, 3, 6]}


async def test_lines_without_a_key_keep_their_order_in_each_partition(shell: Shell) -> None:
    await shell("produce", "orders", stdin=b"".join(b"%d\n" % number for number in range(60)))
    in_partitions: list[list[int]] = [[], [], []]
    for message in await stored(shell):
        in_partitions[message.partition].append(int(message.value))
    assert all(each == sorted(each) and len(each) == 20 for each in in_partitions)


async def test_lines_without_a_key_begin_at_any_partition(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client:
        for first in range(4):
            chunks = [b"%d\n" % first, b""]

            async def read(chunks: list[bytes] = chunks) -> bytes:
                return chunks.pop(0)

            production = Production(client, "orders", lambda _: None, lambda _size: None, first_partition=first)
            await production.run(lines_of(read), lambda line: message_in_line(line, None))
    assert {int(message.value): message.partition for message in await stored(shell)} == {0: 0, 1: 1, 2: 2, 3: 0}


async def test_an_object_says_all_that_a_message_has(shell: Shell) -> None:
    fields = {
        "key": "grüße",
        "value_base64": b64encode(b"\xff\x00").decode(),
        "headers": {"text": "a", "bytes": {"base64": "/w=="}},
        "priority": "high",
        "partition": 2,
    }
    result = await shell("produce", "orders", "--format", "ndjson", stdin=json.dumps(fields).encode() + b"\n\n")
    assert result.exit_code == 0, result.output
    [message] = await stored(shell)
    assert (message.key, message.value, message.partition) == ("grüße".encode(), b"\xff\x00", 2)
    assert (message.headers, message.priority) == ({"text": b"a", "bytes": b"\xff"}, goqueue.Priority.HIGH)


async def test_each_confirmed_message_is_reported_with_its_line(shell: Shell) -> None:
    reports = await shell.json("produce", "orders", stdin=b"one\ntwo\nthree\n")
    assert sorted(report["line"] for report in reports) == [1, 2, 3]
    where = {(message.partition, message.offset): message.value for message in await stored(shell)}
    for report in reports:
        assert report["topic"] == "orders"
        assert where[report["partition"], report["offset"]] == [b"one", b"two", b"three"][report["line"] - 1]


async def test_a_repeat_by_its_id_is_reported_as_one(shell: Shell) -> None:
    line = b'{"value": "v", "message_id": "a"}\n'
    reports = await shell.json("produce", "orders", "--format", "ndjson", stdin=2 * line)
    assert [report["repeated"] for report in reports] == [False, True]
    assert len(await stored(shell)) == 1


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"{", "is not JSON"),
        (b"[1]", "is not an object"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"value": 1}', "value is a number, not text; put its JSON into quotes"),
        (b'{"value": {"a": 1}}', "value is an object, not text; put its JSON into quotes"),
        (b'{"key": [1], "value": ""}', "key is a list, not text"),
        (b'{"value": true}', "value is true or false, not text"),
        (b'{"value": "\\ud800"}', 'value is no text that UTF-8 can hold; give its bytes as "value_base64"'),
        (b'{"value": "a", "delay": "soon"}', "delay is 'soon'; give seconds, or text like 30s"),
        (b'{"value": "a", "ttl": "5"}', "ttl is '5'; give seconds, or text like 30s"),
        (b'{"key": "a"}', "neither value nor value_base64"),
        (b'{"value": "a", "value_base64": "YQ=="}', "both"),
        (b'{"value_base64": "*"}', "value_base64 is not base64"),
        (b'{"value": "a", "headers": ["b"]}', "headers are an object"),
        (b'{"value": "a", "headers": {"b": 1}}', "header b is a number, not text"),
        (b'{"value": "a", "headers": {"b": "\\ud800"}}', 'UTF-8 can hold; give {"base64": '),
        (b'{"value": "a", "headers": {"b": null}}', "header b is null"),
        (b'{"value": "a", "prioritty": 1}', "'prioritty' is not a field"),
    ],
)
def test_an_object_that_is_no_message_says_why(bad: bytes, words: str) -> None:
    with pytest.raises(goqueue.InvalidMessage, match=words):
        message_in_json(bad)


def test_lengths_of_time_in_an_object_are_seconds_or_have_a_unit() -> None:
    message = message_in_json(b'{"value": "a", "delay": "2h", "ttl": 90}')
    assert (message["delay"], message["ttl"]) == (7_200, 90)


REFUSED = [
    (b"{", "is not JSON"),
    (b'{"value": "a", "partition": 3}', "no partition 3"),
    (b'{"value": "a", "partition": "1"}', "a partition is a whole number"),
    (b'{"value": "a", "priority": "urgent"}', "'urgent' is no priority"),
]


async def test_a_bad_line_is_named_and_what_stands_before_it_is_published(shell: Shell) -> None:
    before, after = [b'{"value": "%d"}' % number for number in range(3)], b'{"value": "after"}'
    for run, (bad, words) in enumerate(REFUSED, start=1):
        result = await shell("produce", "orders", "--format", "ndjson", stdin=b"\n".join([*before, bad, after]))
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("Error: line 4: ")
        assert words in result.stderr
        assert await values(shell) == sorted([b"0", b"1", b"2"] * run)


async def test_a_line_without_its_separator_ends_the_run(shell: Shell) -> None:
    result = await shell("produce", "orders", "--key-separator", ":", stdin=b"a:1\nplain\na:2\n")
    assert result.exit_code == 1
    assert "line 2: has no key" in result.stderr
    assert await values(shell) == [b"1"]


async def test_what_the_broker_refuses_names_the_line(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client:
        await client.create_topic("small", partitions=1)
    result = await shell("produce", "small", stdin=b"good\n" + b"x" * (16 * 1024 * 1024 + 1) + b"\nlater\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: line 2: ")
    async with goqueue.connect(shell.url) as client:
        assert [message.value async for message in client.read("small", end="latest")] == [b"good"]


async def test_a_line_refused_among_others_is_named_and_the_others_are_reported(shell: Shell) -> None:
    """The topic's own limit, which only the broker knows: all lines are on their way when it says so."""
    async with goqueue.connect(shell.url) as client:
        await client.create_topic("small", partitions=1, config={"max_message_bytes": 5})
    result = await shell("produce", "small", "-o", "json", stdin=b"one\ntwo\nfar too long\nlonger yet\nlast\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: line 3: the value has 12 bytes; this topic allows 5")
    reported = [json.loads(line)["line"] for line in result.stdout.splitlines()]
    async with goqueue.connect(shell.url) as client:
        found = [message.value async for message in client.read("small", end="latest")]
    assert reported[:2] == [1, 2]
    assert [[b"one", b"two", b"", b"", b"last"][number - 1] for number in reported] == found


async def test_lines_that_differ_in_more_than_key_and_value_keep_their_order(shell: Shell) -> None:
    """G4: calls that cannot be put together follow each other."""
    rows = [
        {"key": "k", "value": str(number), "priority": number % 3, "headers": {"h": str(number // 4)}}
        for number in range(40)
    ]
    lines = "\n".join(json.dumps(row) for row in rows)
    assert (await shell("produce", "orders", "--format", "ndjson", stdin=lines.encode())).exit_code == 0
    found = await stored(shell)
    assert [int(message.value) for message in found] == list(range(40))
    assert all(message.headers == {"h": b"%d" % (number // 4)} for number, message in enumerate(found))
    assert all(message.priority == number % 3 for number, message in enumerate(found))


async def test_a_thousand_lines_are_confirmed_whatever_they_wait_for(shell: Shell) -> None:
    lines = b"".join(b"%d\n" % number for number in range(1_000))
    for run, acks in enumerate(("all", "leader", "none"), start=1):
        reports = await shell.json("produce", "orders", "--acks", acks, stdin=lines)
        assert {report["line"] for report in reports} == set(range(1, 1_001))
        assert all((report["offset"] is None) == (acks == "none") for report in reports)
        assert sorted(map(int, await values(shell))) == sorted(list(range(1_000)) * run)


async def test_a_topic_that_wants_more_than_was_asked_for_says_so(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client:
        await client.create_topic("strict", config={"min_acks": "all"})
    result = await shell("produce", "strict", "--acks", "leader", stdin=b"one\n")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "line 1: this topic wants acks=all at least" in result.stderr


async def test_a_refused_line_ends_the_run_although_nothing_more_comes(shell: Shell) -> None:
    arriving = [b'{"value": "a", "priority": "urgent"}\n']

    async def read() -> bytes:
        if not arriving:
            await trio.sleep_forever()
        return arriving.pop()

    async with goqueue.connect(shell.url) as client:
        production = Production(client, "orders", lambda _: None, lambda _size: None)
        with trio.fail_after(10), pytest.raises(BadLine, match="line 1: 'urgent' is no priority"):
            await production.run(lines_of(read), message_in_json)


async def test_an_unknown_topic_is_no_fault_of_a_line(shell: Shell) -> None:
    result = await shell("produce", "nothing", stdin=b"one\n")
    assert (result.exit_code, result.stderr) == (1, "Error: there is no topic 'nothing'; create it first\n")


async def test_null_is_a_tombstone_and_comes_back_as_null(shell: Shell) -> None:
    """What `consume` writes can be read again."""
    lines = b'{"key": "a", "value": null}\n{"key": "a", "value": ""}\n'
    assert (await shell("produce", "orders", "--format", "ndjson", stdin=lines)).exit_code == 0
    assert [(each.key, each.value) for each in await stored(shell)] == [(b"a", None), (b"a", b"")]
    written = await shell("consume", "orders", "--format", "ndjson")
    assert [json.loads(line)["value"] for line in written.stdout.splitlines()] == [None, ""]
    assert (await shell("consume", "orders")).stdout == "\n\n"
    refused = await shell("produce", "orders", "--format", "ndjson", stdin=b'{"value": null}\n')
    assert (refused.exit_code, "line 1: without a value it is a tombstone" in refused.stderr) == (1, True)


@pytest.mark.parametrize("arguments", [["--key-separator", ""], ["--key-separator", ":", "--format", "ndjson"]])
def test_a_separator_is_some_text_and_for_lines(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, ["produce", "orders", *arguments]).exit_code == 2


async def lines_in(*chunks: bytes, size_max: int = LINE_SIZE_MAX) -> list[Line]:
    arriving = iter([*chunks, b""])

    async def read() -> bytes:
        return next(arriving)

    return [line async for arrived in lines_of(read, size_max) for line in arrived]


async def test_lines_are_the_same_however_they_arrive() -> None:
    wanted = [Line(1, b"one"), Line(2, b""), Line(3, b"two")]
    assert await lines_in(b"one\n\ntwo") == wanted
    assert await lines_in(*[bytes([each]) for each in b"one\n\ntwo\n"]) == wanted
    assert await lines_in() == []


async def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    with pytest.raises(BadLine, match="line 2: longer than 10 bytes"):
        await lines_in(b"fine\n123456", b"123456", b"never asked for", size_max=10)


async def test_how_far_it_is_shows_on_a_terminal(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"line\n" * 20)
    terminal, stderr = pty.openpty()
    command = [sys.executable, "-m", "goqueue", "produce", "orders", "--url", shell.url]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with (tmp_path / "lines").open("rb") as stdin, trio.fail_after(20):
        await trio.run_process(command, stdin=stdin, capture_stdout=True, stderr=stderr, env=environment)
    os.close(stderr)
    seen = os.read(terminal, 100_000).decode()
    os.close(terminal)
    assert "━" in seen
    assert "/100 bytes" in seen


async def test_a_line_may_have_an_id_and_a_time_to_live(shell: Shell) -> None:
    """Sent again, in the same run or another, it is there once; what has expired is not read back."""
    lines = [
        {"value": "once", "message_id": "m"},
        {"value": "once", "message_id": "m"},
        {"value": "passing", "ttl": 0.000001},
        {"value": "other", "message_id": "n", "ttl": 3600},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    for _ in range(2):
        await shell("produce", "orders", "--format", "ndjson", stdin=text.encode())
    assert sorted(message.value for message in await stored(shell)) == [b"once", b"other"]


def test_why_it_waits_is_written_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with _telling_why_it_waits():
        logging.getLogger("goqueue.producer").warning("orders/0 has refused messages for 1.0 s")
    logging.getLogger("goqueue.producer").warning("said to nobody")
    assert capsys.readouterr().err == "orders/0 has refused messages for 1.0 s\n"


async def test_how_many_were_published_is_said_on_stderr_at_the_end(shell: Shell) -> None:
    result = await shell("produce", "orders", stdin=b"a\nb\nc\n")
    assert (result.stdout, result.stderr) == ("", "3 messages published to orders\n")
    result = await shell("produce", "orders", "--acks", "none", stdin=b"a\n")
    assert result.stderr == "1 message sent unconfirmed to orders\n"
    repeated = b'{"value": "a", "message_id": "m"}\n' * 2
    result = await shell("produce", "orders", "--format", "ndjson", "-o", "json", stdin=repeated)
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == "2 messages published to orders, 1 repeat among them\n"
    assert (await shell("produce", "orders", stdin=b"")).stderr == "0 messages published to orders\n"


async def test_who_types_is_told_what_it_waits_for(shell: Shell) -> None:
    terminal, stdin = pty.openpty()
    command = [sys.executable, "-m", "goqueue", "produce", "orders"]
    environment = os.environ | {"GOQUEUE_URL": shell.url}
    os.write(terminal, b"typed\n\x04")
    done = await trio.run_process(command, stdin=stdin, capture_stdout=True, capture_stderr=True, env=environment)
    os.close(stdin)
    os.close(terminal)
    first, last = done.stderr.decode().splitlines()
    assert first == "each line becomes a message of orders; Ctrl-D ends"
    assert last == "1 message published to orders"
