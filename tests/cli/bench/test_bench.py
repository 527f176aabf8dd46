"""`goqueue bench`, against a broker on loopback."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import click
import pytest
import trio
import trio.testing
from click.testing import CliRunner

import goqueue
from goqueue.cli import main
from goqueue.cli.bench.consuming import consume_all
from goqueue.cli.bench.times import Times, histogram
from goqueue.cli.bench.work import Load, OpenLoop, PublishLoad, read_all, topic_of_its_own
from goqueue.storage.disk.disk import RealDisk
from tests.cli.program.test_running import on_a_terminal
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback
from tests.process.children import child

LOAD = Load(count=10, size=3, batch=4, acks="all", producers=2)


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url:
        yield Shell(url)


@pytest.fixture
async def client(shell: Shell) -> AsyncIterator[goqueue.Client]:
    async with goqueue.connect(shell.url) as connected:
        yield connected


def nothing(_: int) -> None:
    pass


PROMISES = {"all": "survives power loss", "leader": "not power loss", "none": "may be lost"}


@pytest.mark.parametrize("acks", PROMISES)
async def test_publishing_is_measured_and_its_durability_said(shell: Shell, acks: str) -> None:
    options = ["--count", "2500", "--batch", "1000", "--partitions", "2", "--acks", acks]
    [found] = await shell.json("bench", "publish", *options)
    assert (found["messages"], found["size"], found["partitions"], found["acks"]) == (2500, 100, 2, acks)
    assert PROMISES[acks] in found["durability"]
    assert found["messages_per_second"] == pytest.approx(2500 / found["seconds"])
    assert found["megabytes_per_second"] == pytest.approx(0.25 / found["seconds"])
    assert 0 < found["batch_p50_ms"] <= found["batch_p99_ms"]
    assert found["client_cpu_us_per_message"] > 0
    assert await shell.json("topic", "list") == []


async def test_a_table_says_the_same_in_words(shell: Shell) -> None:
    shown = (await shell("bench", "publish", "--count", "100")).stdout
    assert "messages per second" in shown
    assert "fsynced before it was confirmed: survives power loss" in shown


async def test_a_topic_can_be_kept_and_be_read_again(shell: Shell) -> None:
    [found] = await shell.json("bench", "publish", "--count", "10", "--size", "3", "--batch", "4", "--keep")
    [topic] = await shell.json("topic", "list")
    assert (found["topic"], found["kept"]) == (topic["name"], True)
    [read] = await shell.json("bench", "read", "--topic", found["topic"])
    assert (read["topic"], read["messages"]) == (found["topic"], 10)
    assert read["megabytes_per_second"] == pytest.approx(30 / read["seconds"] / 1e6)
    assert len(await shell.json("topic", "list")) == 1


async def test_what_was_published_is_read_back_and_counted(shell: Shell) -> None:
    [found] = await shell.json("bench", "read", "--count", "3000", "--acks", "leader")
    assert found["messages"] == 3000
    assert found["messages_per_second"] == pytest.approx(3000 / found["seconds"])
    assert await shell.json("topic", "list") == []


async def test_what_was_published_is_taken_and_acked_by_a_group_of_its_own(shell: Shell) -> None:
    [found] = await shell.json("bench", "consume", "--count", "3000", "--acks", "leader", "--receive", "400")
    assert (found["messages"], found["receive"]) == (3000, 400)
    assert found["messages_per_second"] == pytest.approx(3000 / found["seconds"])
    assert await shell.json("topic", "list") == await shell.json("group", "list") == []


async def test_a_message_that_is_another_than_was_published_ends_a_run_of_a_group(client: goqueue.Client) -> None:
    await client.create_topic("orders", partitions=1)
    await client.publish("orders", b"tea")
    with pytest.raises(click.ClickException, match="partition 0, offset 0 is not what was published"):
        await consume_all(client, "orders", count=1, value=b"coffee", at_once=5, advance=nothing)
    assert await client.groups() == []


async def test_latency_has_its_percentiles_from_end_to_end_too(shell: Shell) -> None:
    [found] = await shell.json("bench", "latency", "--rate", "200", "--seconds", "0.5", "--follow", "--size", "0")
    assert (found["messages"], found["size"]) == (100, 8)
    for what in ("publish", "end_to_end"):
        rising = [found[f"{what}_{name}_ms"] for name in ("p50", "p90", "p99", "p99.9", "max")]
        assert rising[0] > 0
        assert rising == sorted(rising)
    [found] = await shell.json("bench", "latency", "--rate", "100", "--seconds", "0.1", "--acks", "none")
    assert not any(name.startswith("end_to_end") for name in found)
    assert await shell.json("topic", "list") == []


async def test_a_run_that_fails_shows_no_figures(shell: Shell) -> None:
    for command in ("publish", "read", "consume", "latency"):
        result = await shell("bench", command, "--partitions", "1000000")
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    result = await shell("bench", "read", "--topic", "nothing")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no topic 'nothing'" in result.stderr


@pytest.mark.parametrize(
    "arguments", ["publish --count 0", "publish --batch 100000 --size 16000000", "latency --rate 0"]
)
def test_misuse_is_exit_code_2(arguments: str) -> None:
    assert CliRunner().invoke(main, ["bench", *arguments.split()]).exit_code == 2


@pytest.mark.parametrize("command", [["publish", "--count", "1000000000"], ["latency", "--seconds", "80000"]])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_run_removes_its_topic(
    shell: Shell, client: goqueue.Client, command: list[str], number: signal.Signals
) -> None:
    async with child("goqueue", "bench", *command, "--url", shell.url) as process:
        with trio.fail_after(120):
            while not await client.topics():
                await trio.lowlevel.checkpoint()
            process.process.send_signal(number)
            assert await process.end() == 128 + number
    assert process.lines == []
    assert await client.topics() == []


async def divide_by_zero(client: goqueue.Client) -> None:
    async with topic_of_its_own(client, 1, keep=False) as name:
        assert [each.name for each in await client.topics()] == [name]
        raise ZeroDivisionError


async def test_a_topic_of_its_own_is_gone_however_the_run_ends(client: goqueue.Client) -> None:
    with pytest.raises(ZeroDivisionError):
        await divide_by_zero(client)
    with trio.CancelScope() as scope:
        async with topic_of_its_own(client, 1, keep=False):
            scope.cancel()
            await trio.lowlevel.checkpoint()
    async with topic_of_its_own(client, 1, keep=False) as name:
        await client.delete_topic(name)
    assert await client.topics() == []


async def test_a_refused_publish_is_counted_and_fails_the_run(client: goqueue.Client) -> None:
    await client.create_topic("small", partitions=1, config={"max_message_bytes": 2})
    with pytest.raises(goqueue.PublishFailed) as failed:
        await PublishLoad(client, "small", LOAD, nothing).run()
    assert failed.value.message.startswith("0 messages were confirmed, then: 4 of 4 messages were not published")


async def test_messages_that_somebody_removed_fail_the_run(
    client: goqueue.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit lets the oldest go: all were confirmed, and not all are there."""
    monkeypatch.setattr("goqueue.cli.bench.work.SETTLE_SECONDS_MAX", 0.1)
    limits = {"max_messages": 4, "overflow": "drop_oldest", "segment_bytes": 1024}
    await client.create_topic("brief", partitions=1, config=limits)
    load = Load(count=100, size=100, batch=4, acks="all", producers=1)
    with pytest.raises(click.ClickException, match="100 messages were sent and"):
        await PublishLoad(client, "brief", load, nothing).run()


async def test_a_value_that_changed_is_named(client: goqueue.Client) -> None:
    await client.create_topic("orders", partitions=1)
    for value in (b"same", b"other"):
        await client.publish("orders", value)
    assert await read_all(client, "orders", None, nothing) == (2, 9)
    with pytest.raises(click.ClickException, match="partition 0, offset 1 is not what was published"):
        await read_all(client, "orders", b"same", nothing)


async def test_a_stall_is_felt_by_all_that_was_due_in_it(autojump_clock: trio.testing.MockClock) -> None:
    """No coordinated omission: one send takes a second, and a hundred others were due in that second."""
    turn = trio.Lock()

    async def send(number: int) -> None:
        async with turn:
            await trio.sleep(1.0 if number == 50 else 0.001)

    loop = OpenLoop(100.0, 300, send, nothing)
    await loop.run()
    assert loop.times.count == 300
    assert loop.times.quantile(0.5) < 0.02
    assert 0.4 < loop.times.quantile(0.84) < 0.65
    assert loop.times.longest == pytest.approx(1.0)
    assert loop.seconds == pytest.approx(2.991)


async def test_a_failed_send_ends_the_loop_and_says_how_far_it_came(autojump_clock: trio.testing.MockClock) -> None:
    async def send(number: int) -> None:
        if number == 7:
            raise goqueue.TopicFull("no room")

    with pytest.raises(goqueue.TopicFull) as failed:
        await OpenLoop(100.0, 300, send, nothing).run()
    assert failed.value.message == "7 messages were confirmed, then: no room"


def test_quantiles_are_at_most_a_percent_too_long() -> None:
    times = Times()
    for number in range(1, 10_001):
        times.note(number / 1_000)
    for share in (0.001, 0.5, 0.9, 0.99, 0.999, 1.0):
        assert share * 10 <= times.quantile(share) <= share * 10 * 1.0101
    assert times.longest == 10.0
    assert Times().quantile(0.5) == 0.0


def test_a_histogram_has_a_line_for_each_doubling() -> None:
    times = Times()
    for seconds in [0.0009] * 4 + [0.0035] * 2:
        times.note(seconds)
    lines = list(histogram(times))
    assert [line.split()[1] for line in lines] == ["0.977", "1.953", "3.906"]
    assert [line.count("█") for line in lines] == [40, 0, 20]
    assert list(histogram(Times())) == []


async def test_a_terminal_sees_bars(shell: Shell) -> None:
    arguments = ["bench", "latency", "--rate", "100", "--seconds", "0.2", "--url", shell.url]
    seen = await trio.to_thread.run_sync(lambda: on_a_terminal(*arguments))
    assert "█" in seen
    assert "publish p50 ms" in seen
