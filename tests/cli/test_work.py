"""`goqueue work`: a real process, a real broker, and signals."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

import goqueue
from goqueue.cli import main
from goqueue.storage.disk.disk import RealDisk
from tests.process.brokers import broker_on_loopback
from tests.warmprogram import warm_program

LIFE_SECONDS_MAX = 30
HANDLERS = """
import asyncio
import sys
import threading
import time

import trio


def say(message, how):
    print(how, message.value.decode(), flush=True)
    if message.value == b"bad":
        raise ValueError("this one is bad")


def plain(message):
    assert threading.current_thread() is not threading.main_thread()
    say(message, "threads")


async def on_trio(message):
    await trio.sleep(0)
    say(message, "trio")


async def on_asyncio(message):
    await asyncio.sleep(0)
    say(message, "asyncio")


async def slow(message):
    print("begun", flush=True)
    await trio.sleep(1)
    print("ended", flush=True)


async def endless(message):
    print("begun", flush=True)
    try:
        await trio.sleep_forever()
    finally:
        print("cancelled", flush=True)


def endless_thread(message):
    print("begun", flush=True)
    time.sleep(1_000)


class Declined(ValueError):
    pass


def declines(message):
    print("declined", message.value.decode(), flush=True)
    if message.value == b"bad":
        raise Declined("no")


def takes_two(message, other):
    pass


class Shop:
    def sell(message):
        say(message, "sold")


nothing = 3
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with warm_program(tmp_path_factory.mktemp("program")) as folder:
        yield folder


class Place:
    """A folder with handlers, and a broker."""

    def __init__(self, folder: Path, programs: Path, url: str) -> None:
        self._folder, self._programs, self.url = folder, programs, url

    @asynccontextmanager
    async def work(self, function: str, *arguments: str) -> AsyncIterator["Working"]:
        command = [str(self._programs / "goqueue"), "work", function, "--topic", "orders", "--group", "billing"]
        process = await trio.lowlevel.open_process(
            [*command, "--url", self.url, *arguments],
            cwd=self._folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            with trio.fail_after(LIFE_SECONDS_MAX):
                yield Working(process)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()

    async def left(self) -> list[tuple[bytes, int]]:
        """What the group has not done, and how often it was tried."""
        async with goqueue.connect(self.url) as client, client.consumer("orders", group="billing") as consumer:
            return [(message.value, message.attempt) for message in await consumer.receive(timeout=0.5)]


class Working:
    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._unread = b""

    async def line(self) -> str:
        assert self.process.stdout is not None
        while b"\n" not in self._unread:
            more = await self.process.stdout.receive_some()
            assert more, "it has ended"
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    async def end(self) -> tuple[int, str, str]:
        """Its exit code, and what else it wrote to stdout and stderr."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        stdout = self._unread + b"".join([part async for part in self.process.stdout])
        stderr = b"".join([part async for part in self.process.stderr])
        return await self.process.wait(), stdout.decode(), stderr.decode()


@pytest.fixture
async def place(tmp_path: Path, programs: Path) -> AsyncIterator[Place]:
    (tmp_path / "shop.py").write_text(HANDLERS)
    async with broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url:
        async with goqueue.connect(url) as client:
            await client.create_topic("orders", partitions=1)
        yield Place(tmp_path, programs, url)


async def publish(place: Place, *values: bytes) -> None:
    async with goqueue.connect(place.url) as client:
        for value in values:
            await client.publish("orders", value)


@pytest.mark.parametrize(
    ("function", "how", "options"),
    [
        ("shop:plain", "threads", ["--threads"]),
        ("shop:plain", "threads", []),
        ("shop:Shop.sell", "sold", []),
        ("shop:on_trio", "trio", ["--trio"]),
        ("shop:on_asyncio", "asyncio", []),
        ("shop:on_asyncio", "asyncio", ["--asyncio"]),
    ],
)
async def test_a_function_is_run_for_each_message_until_sigterm(
    place: Place, function: str, how: str, options: list[str]
) -> None:
    await publish(place, b"one", b"two")
    async with place.work(function, "--concurrency", "1", "-o", "json", *options) as working:
        assert [await working.line(), await working.line()] == [f"{how} one", f"{how} two"]
        working.process.send_signal(signal.SIGTERM)
        code, stdout, stderr = await working.end()
    assert (code, stderr) == (0, "")
    assert json.loads(stdout) == {"handled": 2, "failed": 0, "cancelled": 0}
    assert await place.left() == []


@pytest.mark.parametrize(
    ("function", "options"), [("shop:plain", []), ("shop:on_trio", ["--trio"]), ("shop:on_asyncio", [])]
)
async def test_a_new_group_has_the_settings_that_it_is_told(
    place: Place, function: str, options: list[str]
) -> None:
    await publish(place, b"one")
    wanted = ["--key-order", "--assignor", "roundrobin", "--rebalance", "eager"]
    async with place.work(function, *wanted, *options) as working, goqueue.connect(place.url) as client:
        await working.line()
        settings = (await client.group("billing")).settings
        assert {"key_order": True, "assignor": "roundrobin", "rebalance": "eager"}.items() <= settings.items()
        working.process.send_signal(signal.SIGTERM)
        assert (await working.end())[0] == 0


async def test_a_new_group_is_shared_and_tries_a_message_often_unless_it_is_told_otherwise(place: Place) -> None:
    await publish(place, b"one", b"two")
    given = ["--max-deliveries", "7", "--retry-longest", "9", "--never-for", "OSError"]
    async with place.work("shop:plain", *given) as working, goqueue.connect(place.url) as client:
        await working.line()
        settings = (await client.group("billing")).settings
    names = ("shared", "max_deliveries", "retry_first", "retry_longest", "retry_jitter")
    assert [settings[name] for name in names] == [True, 7, 1.0, 9.0, 0.2]


@pytest.mark.parametrize("never_for", ["ValueError", "shop:Declined"])
async def test_what_is_not_tried_again_is_a_dead_letter_at_once(place: Place, never_for: str) -> None:
    await publish(place, b"bad", b"good")
    async with place.work("shop:declines", "--concurrency", "1", "--never-for", never_for) as working:
        assert [await working.line(), await working.line()] == ["declined bad", "declined good"]
        async with goqueue.connect(place.url) as client, client.read("orders.dlq") as letters:
            dead = await anext(letters)
    assert (dead.value, dead.headers["goqueue-dlq-attempts"]) == (b"bad", b"1")


@pytest.mark.parametrize(("function", "options"), [("shop:on_trio", []), ("shop:on_asyncio", ["--trio"])])
async def test_a_function_for_the_other_event_loop_ends_it_at_once_and_no_attempt_is_counted(
    place: Place, function: str, options: list[str]
) -> None:
    await publish(place, b"one", b"two")
    async with place.work(function, "--max-deliveries", "1", *options) as working:
        code, stdout, stderr = await working.end()
    assert (code, stdout, stderr.count("\n")) == (2, "", 1), stderr
    assert "the handler cannot run in this event loop" in stderr
    assert await place.left() == [(b"one", 1), (b"two", 1)]


async def test_a_failure_is_logged_and_the_summary_counts_it(place: Place) -> None:
    await publish(place, b"bad", b"good")
    async with place.work("shop:plain", "--concurrency", "1", "--max-deliveries", "1") as working:
        assert [await working.line(), await working.line()] == ["threads bad", "threads good"]
        working.process.send_signal(signal.SIGINT)
        code, stdout, stderr = await working.end()
    assert (code, stdout) == (0, "HANDLED  FAILED  CANCELLED\n      1       1          0\n")
    assert "Z ERROR   goqueue.worker  the handler failed for orders/0 offset 0, attempt 1\n    Traceback" in stderr
    assert "ValueError: this one is bad" in stderr


async def test_a_signal_lets_handlers_end(place: Place) -> None:
    await publish(place, b"one", b"two")
    async with place.work("shop:slow", "--trio", "--concurrency", "1", "-o", "json") as working:
        assert await working.line() == "begun"
        working.process.send_signal(signal.SIGTERM)
        assert await working.line() == "ended"
        code, stdout, stderr = await working.end()
    assert (code, stderr, json.loads(stdout)["handled"]) == (0, "", 1)
    assert await place.left() == [(b"two", 1)]


@pytest.mark.parametrize(("function", "kind"), [("shop:endless", "--trio"), ("shop:endless_thread", "--threads")])
async def test_a_second_signal_ends_at_once_and_what_was_cut_off_is_exit_code_1(
    place: Place, function: str, kind: str
) -> None:
    await publish(place, b"one")
    async with place.work(function, kind, "-o", "json") as working:
        assert await working.line() == "begun"
        working.process.send_signal(signal.SIGTERM)
        with trio.move_on_after(0.2):
            await working.line()
            raise AssertionError("it must wait for the handler")
        working.process.send_signal(signal.SIGINT)
        code, stdout, _ = await working.end()
    assert code == 1
    assert json.loads(stdout.splitlines()[-1]) == {"handled": 0, "failed": 0, "cancelled": 1}
    assert await place.left() == [(b"one", 1)]


async def test_a_drain_has_its_time(place: Place) -> None:
    await publish(place, b"one")
    async with place.work("shop:endless", "--trio", "--drain-timeout", "0.1") as working:
        assert await working.line() == "begun"
        working.process.send_signal(signal.SIGTERM)
        assert await working.line() == "cancelled"
        assert (await working.end())[0] == 1


async def test_what_the_broker_refuses_is_one_sentence_and_exit_code_1(place: Place) -> None:
    async with (
        goqueue.connect(place.url) as client,
        client.consumer("orders", group="billing", max_deliveries=5),
        place.work("shop:plain", "--max-deliveries", "3") as working,
    ):
        code, stdout, stderr = await working.end()
    assert (code, stdout, stderr.count("\n")) == (1, "", 1)
    assert "max_deliveries" in stderr


async def test_a_topic_that_is_not_there_is_waited_for(place: Place) -> None:
    async with place.work("shop:on_trio", "--trio", "--topic", "later", "--concurrency", "1") as working:
        assert working.process.stderr is not None
        assert b"there is no topic later yet" in await working.process.stderr.receive_some()
        async with goqueue.connect(place.url) as client:
            await client.create_topic("later")
            await client.publish("later", b"hello")
        assert await working.line() == "trio hello"
        working.process.send_signal(signal.SIGTERM)
        assert (await working.end())[0] == 0


MISUSES = [
    (["shop"], "MODULE:FUNCTION"),
    ([":plain"], "MODULE:FUNCTION"),
    (["shopp:plain"], "no module shopp"),
    (["shop.inner:plain"], "no module shop.inner"),
    (["shop:missing"], "has no missing"),
    (["shop:Shop.missing"], "has no Shop.missing"),
    (["shop:nothing"], "is no function"),
    (["broken:handle"], "cannot be imported: ZeroDivisionError"),
    (["lacking:handle"], "cannot be imported: ModuleNotFoundError: No module named 'there_is_no_such'"),
    (["shop:takes_two"], "a handler takes one argument"),
    (["shop:plain", "--never-for", "NoSuchError"], "builtins has no NoSuchError"),
    (["shop:plain", "--never-for", "shop:plain"], "never_for"),
    (["shop:plain", "--retry-jitter", "2"], "jitter is 2.0"),
    (["shop:plain", "--asyncio"], "is a plain function"),
    (["shop:plain", "--trio"], "is a plain function"),
    (["shop:on_trio", "--threads"], "is async"),
    (["shop:on_trio", "--trio", "--asyncio"], "give one of --trio and --asyncio"),
    (["shop:on_trio", "--asyncio", "--trio"], "give one of --trio and --asyncio"),
    (["shop:plain", "--threads", "--asyncio"], "give one of --asyncio and --threads"),
    (["shop:plain", "--visibility-timeout", "0"], "visibility_timeout=0.0"),
    (["shop:plain", "--topic", "a/b"], "a/b"),
    (["shop:plain", "--url", "nowhere"], "not an address"),
]


@pytest.mark.parametrize(("arguments", "said"), MISUSES, ids=[" ".join(arguments) for arguments, _ in MISUSES])
def test_misuse_is_one_sentence_and_exit_code_2_before_anybody_is_asked(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(HANDLERS)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "lacking.py").write_text("import there_is_no_such\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    there = ["--topic", "orders", "--group", "billing", "--url", "ws://127.0.0.1:1"]
    result = CliRunner().invoke(main, ["work", arguments[0], *there, *arguments[1:]])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.stderr
    assert said in result.stderr


def test_no_broker_is_one_sentence_and_exit_code_1() -> None:
    arguments = ["work", "os:listdir", "--topic", "orders", "--group", "billing", "--url", "ws://127.0.0.1:1"]
    result = CliRunner().invoke(main, [*arguments, "--timeout", "0.1"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no broker answers" in result.stderr
