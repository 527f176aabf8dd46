"""`goqueue consume --group` and `goqueue group`, against a broker on loopback."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from click.testing import Result

import goqueue
from goqueue.net.wire.groups import Because, Why
from goqueue.storage.disk.disk import RealDisk
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url:
        async with goqueue.connect(url) as client:
            await client.create_topic("lines", partitions=1)
            for number in range(5):
                await client.publish("lines", b"line %d" % number)
        yield Shell(url)


async def reject_all(shell: Shell) -> None:
    """Let a group give up the first two messages."""
    async with goqueue.connect(shell.url) as client, client.consumer("lines", group="billing") as consumer:
        await consumer.reject(await consumer.receive(2), "no address")
        await consumer.ack(await consumer.receive(3))
        while (await client.group("billing")).lag:
            assert await consumer.receive(timeout=0.05) == []


# Consuming


async def test_a_group_gets_each_message_once_over_several_runs(shell: Shell) -> None:
    first = await shell("consume", "lines", "--group", "billing", "--count", "2")
    assert (first.exit_code, first.stdout, first.stderr) == (0, "line 0\nline 1\n", "")
    second = await shell("consume", "lines", "--group", "billing")
    assert second.stdout == "line 2\nline 3\nline 4\n"
    assert (await shell("consume", "lines", "--group", "billing")).stdout == ""
    assert (await shell("consume", "lines", "--group", "shipping", "--count", "5")).stdout.count("\n") == 5


async def test_a_stream_commits_what_it_has_written(shell: Shell) -> None:
    first = await shell("consume", "lines", "--group", "audit", "--mode", "stream", "--count", "2")
    assert first.stdout == "line 0\nline 1\n"
    second = await shell("consume", "lines", "--group", "audit", "--mode", "stream")
    assert second.stdout == "line 2\nline 3\nline 4\n"
    assert (await shell("consume", "lines", "--group", "audit", "--mode", "stream")).stdout == ""
    other = await shell("consume", "lines", "--group", "audit")
    assert (other.exit_code, "mode is 'stream'" in other.stderr) == (1, True)
    assert (await shell("consume", "lines", "--mode", "stream")).exit_code == 2


async def test_a_group_begins_where_it_is_told_and_follows(shell: Shell) -> None:
    result = await shell("consume", "line*", "--group", "billing", "--from", "3", "--follow", "--count", "2")
    assert result.stdout == "line 3\nline 4\n"
    [row] = await shell.json("consume", "lines", "--group", "other", "--count", "1")
    assert (row["offset"], row["value"]) == (0, "line 0")


@pytest.mark.parametrize("options", [[], ["--count", "1"]], ids=str)
async def test_a_topic_that_is_not_there_is_an_error_for_who_does_not_wait(
    shell: Shell, options: list[str]
) -> None:
    """As it is without a group; and no group is made."""
    result = await shell("consume", "nothere", "--group", "billing", *options)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "nothere" in result.stderr
    assert await shell.json("group", "list") == []


async def test_who_follows_a_topic_that_is_not_there_is_told_once_and_gets_it_when_it_comes(shell: Shell) -> None:
    results: list[Result] = []

    async def consume() -> None:
        results.append(await shell("consume", "later", "--group", "billing", "--follow", "--count", "1"))

    async with goqueue.connect(shell.url) as client, trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        while not await client.groups():
            await trio.lowlevel.checkpoint()
        await client.create_topic("later", partitions=1)
        await client.publish("later", b"at last")
    [result] = results
    assert (result.exit_code, result.stdout) == (0, "at last\n")
    assert result.stderr == "there is no topic later yet; waiting for it\n"


async def test_a_pattern_that_fits_nothing_yet_is_no_error(shell: Shell) -> None:
    result = await shell("consume", "nothere-*", "--group", "billing")
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize("option", ["--partition", "--to-time"])
async def test_what_a_group_decides_is_not_to_be_given(shell: Shell, option: str) -> None:
    result = await shell("consume", "lines", "--group", "billing", option, "1")
    assert (result.exit_code, option in result.stderr) == (2, True)


# Groups


async def test_groups_are_listed_and_described(shell: Shell) -> None:
    await shell("consume", "lines", "--group", "billing", "--count", "2")
    listed = (await shell("group", "list")).stdout
    assert listed.splitlines()[0].split() == ["GROUP", "STATE", "MEMBERS", "LAG", "DAMAGED"]
    assert listed.splitlines()[1].split() == ["billing", "empty", "0", "3", "0"]
    [described] = await shell.json("group", "describe", "billing")
    [partition] = described["partitions"]
    assert (partition["committed"], partition["end"], partition["lag"]) == (2, 5, 3)
    table = (await shell("group", "describe", "billing")).stdout
    assert "max_deliveries  3" in table
    assert "nobody" in table


async def test_a_stream_is_described_without_what_only_queues_have(shell: Shell) -> None:
    await shell("consume", "lines", "--group", "audit", "--mode", "stream", "--count", "2")
    table = (await shell("group", "describe", "audit")).stdout
    row = "TOPIC  PARTITION  COMMITTED  END  LAG  DAMAGED  MEMBER"
    assert row in table.splitlines()
    assert ["lines", "0", "2", "5", "3", "0", "nobody"] in [line.split() for line in table.splitlines()]
    assert "PRIORITY" not in table
    settings = [line.split() for line in table.split("SETTING")[1].splitlines()[1:]]
    assert settings == [["mode", "stream"], ["assignor", "sticky"], ["rebalance", "cooperative"]]
    await shell("consume", "lines", "--group", "billing", "--count", "2")
    billing = (await shell("group", "describe", "billing")).stdout
    assert "IN FLIGHT" in billing
    assert "max_deliveries" in billing


async def test_members_are_described(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client, client.consumer("lines", group="billing") as consumer:
        [described] = await shell.json("group", "describe", "billing")
        assert [each["member_id"] for each in described["members"]] == [consumer.member_id]
        table = (await shell("group", "describe", "billing")).stdout
        [row] = [line for line in table.splitlines() if line.startswith(consumer.member_id)]
        [member] = (await client.group("billing")).members
        assert (member.address or "").startswith("127.0.0.1:")
        assert row.split()[:-2] == [member.member_id, member.client, member.address, "lines", "0.0"]


async def test_lanes_are_asked_for_and_described(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client:
        await client.publish("lines", b"now", priority="critical")
    result = await shell("consume", "lines", "--group", "urgent", "--lanes", "strict", "--count", "2")
    assert result.stdout.splitlines()[0] == "now", "the highest first, however much lies before it"
    [described] = await shell.json("group", "describe", "urgent")
    assert described["settings"]["lanes"] == "strict"
    lanes = {each["priority"]: each for each in described["partitions"][0]["lanes"]}
    assert [lanes[name]["served"] for name in ("critical", "high", "normal")] == [1, 0, 1]
    assert (lanes["critical"]["share"], lanes["critical"]["ready"]) == (0.5, 0)
    rows = [line.split() for line in (await shell("group", "describe", "urgent")).stdout.splitlines()]
    assert ["lines", "0", "critical", "0", "0", "1", "50.0", "%"] in rows
    refused = await shell("consume", "lines", "--lanes", "strict")
    assert refused.exit_code == 2
    assert "give --group too" in refused.stderr


async def test_how_partitions_are_shared_out_is_asked_for_by_the_first_member(shell: Shell) -> None:
    first = await shell(
        "consume", "lines", "--group", "joining", "--assignor", "range", "--rebalance", "eager", "--count", "1"
    )
    assert first.exit_code == 0
    [described] = await shell.json("group", "describe", "joining")
    assert (described["settings"]["assignor"], described["settings"]["rebalance"]) == ("range", "eager")
    other = await shell("consume", "lines", "--group", "joining", "--assignor", "sticky")
    assert (other.exit_code, other.stdout) == (1, "")
    assert "assignor" in other.stderr
    for option in (["--assignor", "range"], ["--rebalance", "eager"]):
        alone = await shell("consume", "lines", *option)
        assert (alone.exit_code, "give --group too" in alone.stderr) == (2, True)


async def test_a_group_is_altered_in_the_kinds_that_its_settings_have(shell: Shell) -> None:
    await shell("consume", "lines", "--group", "billing", "--count", "1")
    [altered] = await shell.json(
        "group", "alter", "billing", "--config", "max_deliveries=7", "--config", "shared=true"
    )
    assert (altered["settings"]["max_deliveries"], altered["settings"]["shared"]) == (7, True)
    waits = ["--config", "retry_first=0.5", "--config", "retry_longest=90", "--config", "retry_jitter=1e-1"]
    [altered] = await shell.json("group", "alter", "billing", *waits)
    found = [altered["settings"][name] for name in ("retry_first", "retry_longest", "retry_jitter")]
    assert found == [0.5, 90.0, 0.1]
    result = await shell("group", "alter", "billing", "--config", "max_deliveries=default")
    assert (result.exit_code, result.stdout) == (0, "billing was altered\n")
    [described] = await shell.json("group", "describe", "billing")
    assert described["settings"]["max_deliveries"] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["alter", "billing"], 2, "nothing to change"),
        (["alter", "billing", "--config", "shared"], 2, "not a setting"),
        (["alter", "billing", "--config", "lanes=a", "--config", "lanes=b"], 2, "twice"),
        (["alter", "billing", "--config", "shared=perhaps"], 2, "true or false"),
        (["alter", "billing", "--config", "key_order=perhaps"], 2, "true or false"),
        (["alter", "billing", "--config", "colour=red"], 2, "colour is not a setting of a group; there are mode,"),
        (["alter", "billing", "--config", "colour=default"], 2, "colour is not a setting"),
        (["alter", "nobody", "--config", "colour=red"], 2, "colour is not a setting"),
        (["alter", "billing", "--config", "mode=stream", "--config", "lanes=strict"], 2, "use mode"),
        (["alter", "nobody", "--config", "lanes=strict"], 1, "nobody"),
        (["reset", "billing", "--yes"], 2, "--to"),
        (["reset", "billing", "--to", "1", "--to-time", "1", "--yes"], 2, "both say where to begin"),
        (["reset", "billing", "--to", "1", "--partition", "0", "--yes"], 2, "--topic"),
        (["reset", "billing", "--to", "1"], 2, "--yes"),
        (["delete", "billing"], 2, "--yes"),
        (["describe", "nobody"], 1, "nobody"),
    ],
    ids=str,
)
async def test_what_cannot_be_done_is_said_in_a_sentence(
    shell: Shell, arguments: list[str], code: int, said: str
) -> None:
    await shell("consume", "lines", "--group", "billing", "--count", "1")
    result = await shell("group", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr


async def test_a_group_begins_again_after_a_dry_run(shell: Shell) -> None:
    await shell("consume", "lines", "--group", "billing", "--count", "5")
    moved = {"topic": "lines", "partition": 0, "before": 5, "after": 1}
    assert await shell.json("group", "reset", "billing", "--to", "1", "--dry-run") == [moved]
    assert await shell.json("group", "reset", "billing", "--to", "1", "--yes") == [moved]
    assert (await shell("consume", "lines", "--group", "billing")).stdout.splitlines()[0] == "line 1"
    last = await shell.json("group", "reset", "billing", "--to", "-2", "--dry-run")
    assert [each["after"] for each in last] == [3]
    ago = await shell.json("group", "reset", "billing", "--to-time", "1h", "--dry-run")
    assert [each["after"] for each in ago] == [0]
    table = (await shell("group", "reset", "billing", "--to-time", "0", "--topic", "lines", "--yes")).stdout
    assert table.splitlines()[1].split() == ["lines", "0", "5", "0"]


async def test_a_new_group_begins_with_the_last_messages(shell: Shell) -> None:
    result = await shell("consume", "lines", "--group", "billing", "--from", "-2")
    assert result.stdout.splitlines() == ["line 3", "line 4"]


async def test_with_members_a_dry_run_says_what_would_be_and_a_reset_names_force(shell: Shell) -> None:
    moved = {"topic": "lines", "partition": 0, "before": 0, "after": 1}
    async with goqueue.connect(shell.url) as client, client.consumer("lines", group="billing"):
        assert await shell.json("group", "reset", "billing", "--to", "1", "--dry-run") == [moved]
        refused = await shell("group", "reset", "billing", "--to", "1", "--yes")
        assert (refused.exit_code, "--force" in refused.stderr) == (1, True)
        assert await shell.json("group", "reset", "billing", "--to", "1", "--yes", "--force") == [moved]


async def test_a_group_is_deleted(shell: Shell) -> None:
    await shell("consume", "lines", "--group", "billing", "--count", "5")
    result = await shell("group", "delete", "billing", "--yes")
    assert (result.exit_code, result.stdout) == (0, "billing was deleted\n")
    assert (await shell("group", "list", "-o", "json")).stdout == ""


# Why


async def test_why_says_one_sentence_and_as_json_the_facts(shell: Shell) -> None:
    await shell("consume", "lines", "--group", "billing", "--count", "2")
    said = await shell("why", "billing")
    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout == "the group has no members: 3 messages wait on 1 partition\n"
    [facts] = await shell.json("why", "billing")
    assert (facts["group"], facts["member"], facts["why"]) == ("billing", None, said.stdout.strip())
    assert (facts["reason"], facts["ready"], facts["lag"], facts["members"]) == ("no_members", 3, 3, 0)


async def test_why_of_a_member(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client, client.consumer("lines", group="billing") as consumer:
        await consumer.receive(5)
        [facts] = await shell.json("why", "billing", "--member", consumer.member_id)
        assert (facts["reason"], facts["in_flight"], facts["held_unsettled"]) == ("in_flight", 5, 5)
        assert facts["oldest_lease_member"] == facts["member"] == consumer.member_id
        unknown = await shell("why", "billing", "--member", "zoe")
        assert (unknown.exit_code, unknown.stdout, "zoe" in unknown.stderr) == (1, "", True)


async def test_why_of_a_stream(shell: Shell) -> None:
    async with goqueue.connect(shell.url) as client:
        async with client.consumer("lines", group="audit", mode="stream", auto_commit=False) as consumer:
            while (await client.call(Why("audit"), Because)).facts["fetched"] != 5:
                await consumer.receive(timeout=0)
            [facts] = await shell.json("why", "audit", "--member", consumer.member_id)
            assert (facts["reason"], facts["in_flight"], facts["lag"]) == ("uncommitted", 0, 5)
            because = (await shell("why", "audit")).stdout
            fetched = f"everything that is there was fetched by {consumer.member_id} and is not committed yet"
            assert because == f"{fetched}: 5 messages\n"
        assert (await shell("why", "audit")).stdout == (
            "the group has no members: 5 messages wait on 1 partition\n"
        )


async def test_why_of_a_group_that_is_not_there_is_an_error(shell: Shell) -> None:
    result = await shell("why", "nobody")
    assert (result.exit_code, result.stdout, "nobody" in result.stderr) == (1, "", True)


# Usage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["delayed", "reschedule", "lines", "0", "0"], "--delay or --at"),
        (["delayed", "reschedule", "lines", "0", "0", "--delay", "-1"], "no length of time"),
        (["group", "alter", "billing", "--config", "max_deliveries=x"], "max_deliveries is x, but must be"),
        (
            ["group", "alter", "billing", "--config", "retry_jitter=much"],
            "retry_jitter is much, but must",
        ),
        (["consume", "lines", "--group", "bad name"], "bad name"),
        (["consume", "lines", "--group", "g", "--mode", "stream", "--lanes", "strict"], "lanes"),
    ],
    ids=["no time", "a time before", "no number", "no share", "no name", "lanes of a stream"],
)
async def test_what_a_command_cannot_mean_exits_with_two(shell: Shell, arguments: list[str], said: str) -> None:
    result = await shell(*arguments)
    assert (result.exit_code, result.stdout, said in result.stderr) == (2, "", True)


@pytest.mark.parametrize("word", ["cancel", "deliver"])
async def test_a_message_that_is_not_pending_is_told_on_stderr(shell: Shell, word: str) -> None:
    """Stdout is for results: as JSON it says there that nothing was done."""
    refused = await shell("delayed", word, "lines", "0", "999")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "the message at 0:999 of lines is not pending; if it was, `goqueue delayed list" in refused.stderr
    for_programs = await shell("delayed", word, "lines", "0", "999", "-o", "json")
    assert (for_programs.exit_code, for_programs.stderr) == (1, "")
    assert False in json.loads(for_programs.stdout).values()


async def test_a_delayed_message_is_named_by_its_id(shell: Shell) -> None:
    line = b'{"key": "k", "value": "v", "delay": 3600, "message_id": "bill 7"}\n'
    await shell("produce", "lines", "--format", "ndjson", stdin=line)
    [listed] = await shell.json("delayed", "list", "lines")
    assert listed["message_id"] == "bill 7"
    moved = await shell("delayed", "reschedule", "lines", "--id", "bill 7", "--delay", "2h")
    assert (moved.exit_code, moved.output) == (0, "the message with id bill 7 of lines was rescheduled\n")
    cancelled = await shell.json("delayed", "cancel", "lines", "--id", "bill 7", "--key", "k")
    assert cancelled == [{"topic": "lines", "message_id": "bill 7", "cancelled": True}]
    again = await shell("delayed", "deliver", "lines", "--id", "bill 7")
    assert (again.exit_code, "with id bill 7 of lines is not pending" in again.stderr) == (1, True)


@pytest.mark.parametrize("named", [[], ["0"], ["0", "1", "--id", "a"], ["0", "1", "--key", "k"]], ids=str)
async def test_a_delayed_message_is_named_in_one_way(shell: Shell, named: list[str]) -> None:
    result = await shell("delayed", "cancel", "lines", *named)
    assert (result.exit_code, "give PARTITION and OFFSET, or --id" in result.stderr) == (2, True)
