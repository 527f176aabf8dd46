"""Checks the requirements of Spark: its packages, its Java, and the Python of its workers.

Without these checks each of them fails late, in a stack trace of Java. Packages and Java are checked before a
session is built, if goqueue builds it (`check_machine`), else when the format is registered.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from goqueue import __version__
from goqueue.errors import SparkNotReady

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Version = tuple[int, ...]

PACKAGES: Mapping[str, tuple[Version, Version]] = {
    "pyspark": ((4, 3), (4, 4)),
    "pandas": ((2, 2), (3,)),
    "pyarrow": ((18,), (27,)),
}
"""The oldest version that works, and the first that does not; pyproject.toml says the same."""
JAVA_OLDEST = 17
JAVA_SECONDS_MAX = 30.0
WORKERS_PYTHON = "PYSPARK_PYTHON"
INSTALL = "pip install 'goqueue[spark]'"
INSTALL_JAVA = "sudo apt-get install -y openjdk-17-jre-headless, or set JAVA_HOME to where one lies"


def use_this_python() -> None:
    """Workers have our packages only if they run under our Python. A variable that is set already stays."""
    os.environ.setdefault(WORKERS_PYTHON, sys.executable)


def check_machine() -> None:
    """Before a session is built."""
    check_packages()
    check_java()


# Packages


def check_packages(version_of: Callable[[str], str] = version) -> None:
    """All faults at once: one `pip install` cures them."""
    faults = [fault for name in PACKAGES if (fault := _fault_of(name, version_of)) is not None]
    if faults:
        raise SparkNotReady(f"{'; '.join(faults)}. Please run: {INSTALL}", faults=faults)


def _fault_of(name: str, version_of: Callable[[str], str]) -> str | None:
    oldest, first_unfit = PACKAGES[name]
    wanted = f"{_text(oldest)} or newer, below {_text(first_unfit)}"
    try:
        found = version_of(name)
    except PackageNotFoundError:
        return f"{name} is not installed; Spark needs {wanted}"
    if oldest <= _numbers(found) < first_unfit:
        return None
    return f"{name} is {found}; Spark needs {wanted}"


def _numbers(text: str) -> Version:
    """The leading numbers of a version, as (4, 3, 0) of 4.3.0.dev1."""
    return tuple(int(part) for part in re.match(r"[\d.]*", text)[0].strip(".").split(".") if part)  # type: ignore[index]


def _text(numbers: Version) -> str:
    return ".".join(map(str, numbers))


# Java


def check_java() -> None:
    """Check the Java that Spark will start: that of JAVA_HOME, else the first on the path."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if java is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the path"
        raise SparkNotReady(f"Spark needs Java {JAVA_OLDEST} or newer, and {where}. Please run: {INSTALL_JAVA}")
    check_java_version(_said_by(java), java)


def _said_by(java: str) -> str:
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkNotReady(f"{java} does not run: {error}. Please run: {INSTALL_JAVA}") from error
    said = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return said[1] if said else f"of unknown age, says {(done.stderr + done.stdout)[:200]!r}"


def check_java_of(spark: "SparkSession") -> None:
    """Check the Java of a session."""
    jvm: Any = spark.sparkContext._jvm
    check_java_version(str(jvm.System.getProperty("java.version")), "the session's Java")


def check_java_version(said: str, java: str) -> None:
    """Versions look like 17.0.15, 21-ea, or 1.8.0_392 for an old one."""
    if (_numbers(said) or (0,))[0] < JAVA_OLDEST:
        raise SparkNotReady(
            f"{java} is {said}; Spark needs Java {JAVA_OLDEST} or newer. Please run: {INSTALL_JAVA}"
        )


# Workers


def check_workers(spark: "SparkSession") -> None:
    """Ask one worker what it can import. On every master workers have one Python and one set of packages."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 (it comes with PySpark)
    from pyspark.errors import PySparkException  # noqa: PLC0415

    context = spark.sparkContext
    try:
        # An RDD of one partition: no query to plan, no Arrow; the worker needs only Python and PySpark.
        [(python, missing, found)] = context.parallelize([0], 1).map(_what_a_worker_has()).collect()
    except (PySparkException, Py4JError) as error:
        raise SparkNotReady(
            f"Spark's workers do not run under {context.pythonExec}: {_reason(str(error))}. {_cure()}"
        ) from None
    if missing:
        raise SparkNotReady(
            f"Spark's workers run under {python}, which cannot import {', '.join(missing)}. {_cure()}",
            python=python,
            missing=list(missing),
        )
    if found != __version__:
        raise SparkNotReady(
            f"Spark's workers run under {python}, which has goqueue {found}; this is {__version__}. {_cure()}",
            python=python,
        )


def _what_a_worker_has() -> Callable[[int], tuple[str, tuple[str, ...], str]]:
    """A nested function, which is pickled by value: the worker may have no goqueue to import it from."""

    def look(_: int) -> tuple[str, tuple[str, ...], str]:
        import importlib  # noqa: PLC0415
        import sys  # noqa: PLC0415

        missing = []
        for name in ("goqueue", "pyarrow", "pandas"):
            try:
                importlib.import_module(name)
            except Exception as error:
                missing.append(f"{name} ({error})")
        return sys.executable, tuple(missing), getattr(sys.modules.get("goqueue"), "__version__", "")

    return look


def _reason(trace: str) -> str:
    """The line of a stack trace that names the reason."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"PYTHON_VERSION_MISMATCH|Cannot run program|Error: ", line)]
    return (telling or lines or ["it says nothing"])[0][:300]


def _cure() -> str:
    return (
        f"Please import goqueue.spark before the session is built, or build it with spark.pyspark.python set to a "
        f"Python {sys.version_info.major}.{sys.version_info.minor} with goqueue in it, here {sys.executable}; on a "
        f"cluster, on every machine of it: {INSTALL}"
    )
