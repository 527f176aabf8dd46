"""`goqueue schema`: registers, shows, lists, configures and deletes, against a broker on loopback."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.storage.disk.disk import RealDisk
from tests.cli.test_topic import Shell
from tests.process.brokers import broker_on_loopback

FIRST = (
    b'{"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], '
    b'"additionalProperties": false}'
)
SECOND = FIRST.replace(b'}}, "req', b'}, "note": {"type": "string"}}, "req')
OTHER = b'{"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}'


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with broker_on_loopback(RealDisk(), str(tmp_path / "data")) as url:
        yield Shell(url)


async def register(shell: Shell, subject: str, schema: bytes, *options: str) -> dict[str, Any]:
    [fields] = await shell.json("schema", "register", subject, *options, stdin=schema)
    assert isinstance(fields, dict)
    return fields


async def test_a_schema_is_registered_from_a_file_or_stdin(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_bytes(FIRST)
    first = await shell("schema", "register", "orders-value", str(file))
    assert (first.exit_code, first.stdout) == (0, "orders-value: version 1, id 1\n")
    again = await shell("schema", "register", "orders-value", stdin=FIRST)
    assert again.stdout == "orders-value: version 1, id 1, which was there already\n"
    fields = await register(shell, "orders-value", SECOND)
    assert (fields["version"], fields["id"], fields["type"], fields["is_new"]) == (2, 2, "JSON", True)
    assert not (await register(shell, "orders-value", FIRST))["is_new"]


async def test_a_schema_that_cannot_be_is_a_misuse_and_one_that_does_not_fit_is_refused(shell: Shell) -> None:
    await register(shell, "orders-value", FIRST)
    for bad, fault in ((b"{", "no JSON"), (b'{"type": "nope"}', "#/type"), (b"\xff", "UTF-8")):
        refused = await shell("schema", "register", "orders-value", stdin=bad)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert fault in refused.stderr
    refused = await shell("schema", "register", "orders-value", stdin=OTHER)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "BACKWARD" in refused.stderr
    forced = await shell("schema", "register", "orders-value", "--force", stdin=OTHER)
    assert forced.stdout == "orders-value: version 2, id 2\n"
    assert (await shell("schema", "register", "orders-value", "no-such-file")).exit_code == 2


async def test_references_are_named_by_options(shell: Shell) -> None:
    await register(shell, "line", b'{"type": "string"}')
    lines = b'{"type": "array", "items": {"$ref": "line.json"}}'
    fields = await register(shell, "lines", lines, "--reference", "line.json=line:1")
    assert fields["references"] == [{"name": "line.json", "subject": "line", "version": 1}]
    assert "line.json is line, version 1\n" in (await shell("schema", "show", "lines")).stdout
    for bad in ("line.json", "line.json=line", "line.json=line:0", "=line:1", "line.json=:1"):
        assert (await shell("schema", "register", "lines", "--reference", bad, stdin=lines)).exit_code == 2


async def test_the_order_of_members_may_make_no_difference(shell: Shell) -> None:
    await register(shell, "orders-value", b'{"type": "object", "title": "a"}', "--normalize")
    assert not (await register(shell, "orders-value", b'{"title": "a", "type": "object"}', "--normalize"))["is_new"]


async def test_a_schema_is_shown_by_version_by_id_and_to_the_letter(shell: Shell) -> None:
    for schema in (FIRST, SECOND):
        await register(shell, "orders-value", schema)
    newest = (await shell("schema", "show", "orders")).stdout
    assert newest.startswith("orders-value  version 2, id 2, JSON\n\n{\n  ")
    assert json.loads(newest.partition("\n\n")[2]) == json.loads(SECOND)
    assert (await shell("schema", "show", "orders-value", "--version", "1", "--text")).stdout_bytes == FIRST + b"\n"
    [fields] = await shell.json("schema", "show", "--id", "1")
    assert (fields["subject"], fields["version"], fields["schema"]) == ("orders-value", 1, FIRST.decode())
    assert (await shell("schema", "show", "nothing")).exit_code == 1
    assert (await shell("schema", "show", "orders-value", "--version", "9")).exit_code == 1
    for misuse in ((), ("orders", "--id", "1"), ("--id", "1", "--version", "1"), ("orders", "--version", "newest")):
        assert (await shell("schema", "show", *misuse)).exit_code == 2


async def test_what_is_not_printable_reaches_no_terminal(shell: Shell) -> None:
    await register(shell, "orders-value", '{"title": "\u202ered"}'.encode())
    assert "\\u202ered" in (await shell("schema", "show", "orders")).stdout


async def test_subjects_are_listed_with_their_versions(shell: Shell) -> None:
    assert await shell.json("schema", "list") == []
    for schema in (FIRST, SECOND):
        await register(shell, "orders-value", schema)
    await register(shell, "lines-key", b"true")
    await shell("schema", "config", "orders-value", "--compatibility", "full")
    lines = (await shell("schema", "list")).stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["SUBJECT", "VERSIONS", "NEWEST", "ID", "TYPE", "COMPATIBILITY"],
        ["lines-key", "1", "1", "3", "JSON", "BACKWARD"],
        ["orders-value", "1-2", "2", "2", "JSON", "FULL"],
    ]
    [row] = await shell.json("schema", "list", "--prefix", "orders")
    assert (row["subject"], row["versions"], row["compatibility"]) == ("orders-value", [1, 2], "FULL")


async def test_settings_are_shown_changed_and_taken_back(shell: Shell) -> None:
    await register(shell, "orders-value", FIRST)
    changed = await shell("schema", "config", "orders-value", "--compatibility", "FULL_TRANSITIVE", "--normalize")
    assert [line.split(maxsplit=2) for line in changed.stdout.splitlines()[1:]] == [
        ["compatibility", "FULL_TRANSITIVE", "the subject"],
        ["normalize", "yes", "the subject"],
        ["mode", "READWRITE", "all subjects"],
    ]
    [fields] = await shell.json("schema", "config", "orders-value", "--reset")
    assert (fields["compatibility"], fields["normalize"]) == ("BACKWARD", False)
    assert (await shell.json("schema", "config", "--compatibility", "none", "--mode", "readwrite")) != []
    [fields] = await shell.json("schema", "config")
    assert fields == {
        "subject": None,
        "compatibility": "NONE",
        "normalize": False,
        "mode": "READWRITE",
        "own": None,
    }
    assert (await shell.json("schema", "config", "orders-value"))[0]["compatibility"] == "NONE"
    for misuse in (
        ("--compatibility", "sometimes"),
        ("--reset", "--normalize"),
        ("--force",),
    ):
        assert (await shell("schema", "config", "orders-value", *misuse)).exit_code == 2


async def test_ids_of_another_registry_are_kept(shell: Shell) -> None:
    await shell("schema", "config", "orders-value", "--mode", "import")
    fields = await register(shell, "orders-value", FIRST, "--id", "4711", "--version", "3")
    assert (fields["id"], fields["version"]) == (4711, 3)
    assert (await shell("schema", "config", "orders-value", "--mode", "readonly")).exit_code == 0
    refused = await shell("schema", "register", "orders-value", stdin=SECOND)
    assert refused.exit_code == 1
    assert "READONLY" in refused.stderr


async def test_versions_and_subjects_are_deleted(shell: Shell) -> None:
    for schema in (FIRST, SECOND):
        await register(shell, "orders-value", schema)
    asked = await shell("schema", "delete", "orders-value")
    assert (asked.exit_code, asked.stdout) == (2, "")
    early = await shell("schema", "delete", "orders-value", "--version", "1", "--permanent", "--yes")
    assert early.exit_code == 1
    one = await shell("schema", "delete", "orders-value", "--version", "1", "--yes")
    assert one.stdout == "orders-value: deleted version 1\n"
    deleted = await shell("schema", "show", "orders-value", "--version", "1", "--deleted")
    assert deleted.stdout.startswith("orders-value  version 1, id 1, JSON, deleted\n")
    assert (await shell.json("schema", "delete", "orders-value", "--yes"))[0]["versions"] == [2]
    assert await shell.json("schema", "list") == []
    assert [row["versions"] for row in await shell.json("schema", "list", "--deleted")] == [[1, 2]]
    gone = await shell("schema", "delete", "orders-value", "--permanent", "--yes")
    assert gone.stdout == "orders-value: deleted versions 1-2\n"
    assert (await shell("schema", "delete", "orders-value", "--yes")).exit_code == 1
