"""`goqueue spark ingest --schema`: a file or the registry, and what is wrong before Spark starts."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from goqueue.cli import main
from goqueue.cli.spark.schemachoice import RegistryChoice, SchemaChoice


@pytest.mark.parametrize(
    ("said", "subject", "version"),
    [
        ("registry", None, "latest"),
        ("registry:orders-value", "orders-value", "latest"),
        ("registry:orders-value:3", "orders-value", 3),
        ("registry:orders-value:latest", "orders-value", "latest"),
        ("registry::3", None, 3),
        ("registry:com.acme:Order", "com.acme:Order", "latest"),
        ("registry:com.acme:Order:3", "com.acme:Order", 3),
    ],
)
def test_a_version_of_the_registry_is_chosen(said: str, subject: str | None, version: int | str) -> None:
    assert SchemaChoice().convert(said, None, None) == RegistryChoice(subject, version)


def test_a_file_is_a_file_also_if_it_is_named_like_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("registry", "registry:orders-value", "orders.json"):
        Path(name).write_bytes(b"{}")
        with SchemaChoice().convert(f"./{name}", None, None) as file:
            assert file.read() == b"{}"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("registry", "with several topics --schema registry needs a subject: registry:SUBJECT"),
        ("registry::2", "with several topics --schema registry needs a subject"),
        ("registry:orders-value:0", "versions are counted from 1"),
        ("nowhere.json", "No such file or directory"),
    ],
)
def test_what_is_wrong_ends_with_2(schema: str, why: str) -> None:
    done = CliRunner().invoke(
        main, ["spark", "ingest", "--topic", "orders", "--topic", "bills", "--to", "t", "--schema", schema]
    )
    assert done.exit_code == 2
    assert why in done.stderr
