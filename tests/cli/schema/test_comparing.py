"""`goqueue schema check` and `diff`: exit codes that scripts can trust, and what would help."""

from pathlib import Path

import pytest

from tests.cli.schema.test_commands import FIRST, OTHER, SECOND, register, shell
from tests.cli.test_topic import Shell

__all__ = ["shell"]

DEMANDING = FIRST.replace(b'"required": ["id"]', b'"required": ["id", "note"]').replace(
    b'}}, "req', b'}, "note": {"type": "string"}}, "req'
)


async def test_a_compatible_schema_is_a_good_exit(shell: Shell) -> None:
    new = await shell("schema", "check", "orders-value", stdin=FIRST)
    assert (new.exit_code, new.stdout) == (0, "compatible with orders-value (BACKWARD)\n")
    await register(shell, "orders-value", FIRST)
    [checked] = await shell.json("schema", "check", "orders-value", stdin=SECOND)
    assert checked == {"subject": "orders-value", "level": "BACKWARD", "is_compatible": True, "findings": []}
    assert [row["versions"] for row in await shell.json("schema", "list")] == [[1]]


async def test_findings_are_shown_with_what_helps(shell: Shell, tmp_path: Path) -> None:
    await register(shell, "orders-value", FIRST)
    file = tmp_path / "order.json"
    file.write_bytes(DEMANDING)
    checked = await shell("schema", "check", "orders-value", str(file))
    title, columns, row, help_line = checked.stdout.splitlines()
    assert checked.exit_code == 1
    assert title == "not compatible with orders-value, version 1 (BACKWARD): 1 finding"
    assert columns.split() == ["PATH", "BEFORE", "NOW", "DIFFERENCE"]
    assert row.startswith("#/properties/note ")
    assert "REQUIRED_PROPERTY_ADDED" in row
    assert help_line.startswith("    ")
    assert "`note`" in help_line


async def test_findings_are_json_with_the_exit_code_of_the_table(shell: Shell) -> None:
    await register(shell, "orders-value", FIRST)
    checked = await shell("schema", "check", "orders-value", "--version", "latest", "-o", "json", stdin=OTHER)
    assert checked.exit_code == 1
    assert '"is_compatible": false' in checked.stdout
    assert '"version": 1' in checked.stdout
    assert (await shell("schema", "check", "orders-value", stdin=b"[]")).exit_code == 2
    assert (await shell("schema", "check", "orders-value", "--version", "7", stdin=FIRST)).exit_code == 1


async def test_two_versions_are_compared_in_both_directions(shell: Shell) -> None:
    for schema in (FIRST, SECOND):
        await register(shell, "orders-value", schema)
    shown = await shell("schema", "diff", "orders-value", "1", "2")
    assert shown.exit_code == 0
    assert "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL" in shown.stdout
    assert "NEW reads what OLD wrote (BACKWARD): yes\n" in shown.stdout
    assert "OLD reads what NEW writes (FORWARD): no\n  #/properties/note: " in shown.stdout
    assert shown.stdout.endswith("\ncompatible as orders-value asks (BACKWARD)\n")
    await shell("schema", "config", "orders-value", "--compatibility", "FULL")
    assert (await shell("schema", "diff", "orders-value", "1", "2")).exit_code == 1
    await shell("schema", "config", "orders-value", "--compatibility", "NONE")
    assert (await shell("schema", "diff", "orders-value", "1", "2")).exit_code == 0


async def test_a_file_is_compared_with_the_newest_version_or_another_file(shell: Shell, tmp_path: Path) -> None:
    await register(shell, "orders-value", FIRST)
    for name, schema in (("first.json", FIRST), ("second.json", SECOND), ("demanding.json", DEMANDING)):
        (tmp_path / name).write_bytes(schema)
    same = await shell("schema", "diff", "orders-value", str(tmp_path / "first.json"))
    assert (same.exit_code, same.stdout.splitlines()[0]) == (0, "the two say the same")
    refused = await shell("schema", "diff", "orders-value", "-o", "json", str(tmp_path / "demanding.json"))
    assert refused.exit_code == 1
    assert '"breaks": true' in refused.stdout
    files = [str(tmp_path / name) for name in ("second.json", "demanding.json")]
    assert (await shell("schema", "diff", "orders-value", *files)).exit_code == 1
    piped = await shell("schema", "diff", "orders-value", "1", "-", stdin=SECOND)
    assert piped.exit_code == 0


async def test_references_are_followed(shell: Shell) -> None:
    await register(shell, "line", b'{"type": "integer"}')
    await shell("schema", "config", "line", "--compatibility", "NONE")
    await register(shell, "line", b'{"type": "string"}')
    lines = b'{"type": "array", "items": {"$ref": "line.json"}}'
    await register(shell, "lines", lines, "--reference", "line.json=line:1")
    options = ("--reference", "line.json=line:2", "lines", "-")
    shown = await shell("schema", "diff", *options, stdin=lines)
    assert (shown.exit_code, "TYPE_CHANGED" in shown.stdout) == (1, True)


@pytest.mark.parametrize("schemas", [(), ("1", "2", "3"), ("no-such-file",)])
async def test_what_cannot_be_compared_is_a_misuse(shell: Shell, schemas: tuple[str, ...]) -> None:
    refused = await shell("schema", "diff", "orders-value", *schemas)
    assert (refused.exit_code, refused.stdout) == (2, "")


async def test_a_file_that_is_no_schema_is_a_misuse_and_a_version_that_is_not_there_is_refused(
    shell: Shell,
) -> None:
    await register(shell, "orders-value", FIRST)
    assert (await shell("schema", "diff", "orders-value", "-", stdin=b'{"type": 3}')).exit_code == 2
    assert (await shell("schema", "diff", "orders-value", "1", "2")).exit_code == 1
