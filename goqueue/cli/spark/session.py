"""The session that a command on Spark runs in: built here, or by `spark-submit` around it.

The settings of `spark-submit` hold: of the settings below only the log level and the name are set in any case. A
local session is bound to loopback, where no other machine can reach it.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from goqueue.cli.program.output import printable
from goqueue.cli.program.running import Misuse
from goqueue.cli.spark.signals import Signals
from goqueue.errors import GoQueueError, InvalidConfig
from goqueue.spark import register
from goqueue.spark.checks import check_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEVELS = ["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG"]
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable with the port of the Java process that `spark-submit` has started."""


def spark_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--master` and `--log-level`."""
    master = click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs, for instance local[2] or spark://host:7077. "
        "Without it: what spark-submit says, else all cores of this machine.",
    )
    level = click.option(
        "--log-level",
        type=click.Choice(LEVELS, case_sensitive=False),
        default="OFF",
        show_default=True,
        help="What Spark's own log writes to stderr.",
    )
    return master(level(command))


@contextmanager
def spark_session(name: str, master: str | None, log_level: str, signals: Signals) -> Iterator["SparkSession"]:
    """A session that knows goqueue, for a block; an existing session stays as it is. Anything that is missing,
    refused or fails ends the command with one sentence, and a signal with `Interrupted`.
    """
    try:
        with signals.taken():
            check_machine()
            with _told(), _opened(name, master, log_level, signals) as spark:
                register(spark)
                yield spark
    except InvalidConfig as error:
        raise Misuse(printable(error.message)) from None
    except GoQueueError as error:
        raise click.ClickException(printable(error.message)) from None


@contextmanager
def _opened(name: str, master: str | None, log_level: str, signals: Signals) -> Iterator["SparkSession"]:
    from pyspark.sql import SparkSession  # noqa: PLC0415 (it may be missing, which check_machine tells)

    if (there := SparkSession.getActiveSession()) is not None:
        yield there
        return
    settings = {"spark.app.name": name, **_settings(master, log_level, is_submitted=SUBMITTED in os.environ)}
    spark = _started(settings, signals)
    try:
        spark.sparkContext.setLogLevel(log_level.upper())
        yield spark
    finally:
        signals.is_over = True
        if not signals.java.is_unwanted:
            with suppress(Exception):  # a signal that comes now; the work is done
                spark.stop()


def _started(settings: Mapping[str, str], signals: Signals) -> "SparkSession":
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    logging.getLogger().addFilter(_is_no_interrupt)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # the command reports errors
    conf = SparkConf().setAll(list(settings.items()))
    with signals.java.starting():
        context: Any = SparkContext.getOrCreate(conf)
        signals.take_over()
        context._accumulatorServer.handle_error = lambda *_: None  # it fails when Java ends, with a long trace
        spark: SparkSession = SparkSession.Builder().config(conf=conf).getOrCreate()
    if signals.java.is_unwanted:
        raise KeyboardInterrupt
    return spark


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Py4J logs a Ctrl-C during a call to Java, though it raises it, too."""
    return record.exc_info is None or not isinstance(record.exc_info[1], KeyboardInterrupt)


@contextmanager
def _told() -> Iterator[None]:
    """Turn Spark's long errors into one sentence."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 (it comes with PySpark)
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise click.ClickException(printable(sentence_of(str(error)))) from None


def sentence_of(told: str) -> str:
    """The sentence of a stack trace: goqueue's message, else that of a Spark error class, else the first line."""
    for pattern in (r"goqueue\.errors\.\w+: (.+)", r"(\[[A-Z_.]+\] .+)"):
        if found := re.findall(pattern, told):
            return str(found[-1]).strip()
    return next((line.strip() for line in told.splitlines() if line.strip()), "Spark failed, and does not say why")


def _settings(master: str | None, log_level: str, *, is_submitted: bool) -> dict[str, str]:
    settings = {"spark.log.level": log_level.upper(), "spark.ui.showConsoleProgress": "false"}
    if master is not None:
        settings["spark.master"] = master
    if not is_submitted and (master is None or master.startswith("local")):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings["spark.ui.enabled"] = "false"
    return settings
