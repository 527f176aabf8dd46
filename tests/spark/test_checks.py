"""What Spark needs is looked at before it starts, and named."""

from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from goqueue.errors import SparkNotReady
from goqueue.spark.checks import check_java, check_java_version, check_machine, check_packages

GOOD = {"pyspark": "4.3.0", "pandas": "2.3.3", "pyarrow": "26.0.1"}


def versions(**others: str | None) -> Callable[[str], str]:
    installed: Mapping[str, str | None] = GOOD | others

    def version_of(name: str) -> str:
        found = installed[name]
        if found is None:
            raise PackageNotFoundError(name)
        return found

    return version_of


def test_this_machine_is_ready() -> None:
    check_machine()


@pytest.mark.parametrize("fit", [{}, {"pyspark": "4.3.7"}, {"pandas": "2.2.0"}, {"pyarrow": "18.0.0"}])
def test_packages_that_fit_pass(fit: dict[str, str | None]) -> None:
    check_packages(versions(**fit))


@pytest.mark.parametrize(
    ("unfit", "said"),
    [
        ({"pyspark": None}, "pyspark is not installed; Spark needs 4.3 or newer, below 4.4"),
        ({"pyspark": "4.2.1"}, "pyspark is 4.2.1"),
        ({"pyspark": "4.4.0"}, "pyspark is 4.4.0"),
        ({"pandas": "3.0.0"}, "pandas is 3.0.0; Spark needs 2.2 or newer, below 3"),
        ({"pandas": "3.0.0rc1"}, "pandas is 3.0.0rc1"),
        ({"pyarrow": "17.0.0"}, "pyarrow is 17.0.0"),
    ],
)
def test_a_package_that_does_not_fit_is_named_with_the_cure(unfit: dict[str, str | None], said: str) -> None:
    with pytest.raises(SparkNotReady) as refused:
        check_packages(versions(**unfit))
    assert said in refused.value.message
    assert "pip install 'goqueue[spark]'" in refused.value.message


def test_all_packages_that_do_not_fit_are_named_at_once() -> None:
    with pytest.raises(SparkNotReady) as refused:
        check_packages(versions(pyspark=None, pandas="3.1", pyarrow=None))
    assert len(refused.value.details["faults"]) == 3


@pytest.mark.parametrize("said", ["17", "17.0.15", "21-ea", "25.0.1"])
def test_java_that_is_new_enough_passes(said: str) -> None:
    check_java_version(said, "java")


@pytest.mark.parametrize("said", ["1.8.0_392", "11.0.2", "16.0.1", "of unknown age"])
def test_java_that_is_too_old_is_named(said: str) -> None:
    with pytest.raises(SparkNotReady, match=r"Java 17 or newer.*openjdk-17-jre-headless"):
        check_java_version(said, "/opt/java")


def test_the_java_of_java_home_counts_before_that_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "old", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(java_home(tmp_path / "new", "21.0.1") / "bin") + ":/bin:/usr/bin")
    with pytest.raises(SparkNotReady, match=r"old/bin/java is 1\.8\.0_392"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    check_java()


def test_no_java_at_all_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SparkNotReady, match="no java on the path"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkNotReady, match="which has no bin/java"):
        check_java()


def java_home(home: Path, version: str) -> Path:
    """One that says of itself what Java says, and does nothing else."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return home
