"""The log of a broker: one record a line, whatever a name holds, as text and as JSON."""

import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.logs import JSON, TEXT, JsonFormatter, TextFormatter, logging_to_stderr
from goqueue.core.security import audit
from goqueue.core.security.principals import ANONYMOUS
from goqueue.net.wire.messages import DeleteTopic

RECORD = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG  |INFO   |WARNING|ERROR  ) goqueue[.\w]*  .*")
FORGED = "2026-11-18T12:00:00.000Z INFO    goqueue.serve  all is well"
hostile = st.text(st.characters(codec="utf-8") | st.sampled_from("\n\r\x0b\x1b\x85\u2028\x00"), max_size=40)


@contextmanager
def heard(level: str = "info", log_format: str = TEXT) -> Iterator[io.StringIO]:
    with redirect_stderr(io.StringIO()) as stderr, logging_to_stderr(level, log_format):
        yield stderr


def test_a_record_has_time_level_logger_and_sentence() -> None:
    with heard() as stderr:
        logging.getLogger("goqueue.janitor").warning("%s cannot be removed", "deleted/x")
    [line] = stderr.getvalue().splitlines()
    assert RECORD.fullmatch(line)
    assert line.endswith("Z WARNING goqueue.janitor  deleted/x cannot be removed")


def test_the_time_is_that_of_the_record_in_milliseconds() -> None:
    record = logging.makeLogRecord(
        {"created": 1_700_000_000.0064, "name": "goqueue.x", "msg": "m", "levelname": "INFO"}
    )
    assert TextFormatter().format(record) == "2023-11-14T22:13:20.006Z INFO    goqueue.x  m"
    assert json.loads(JsonFormatter().format(record)) == {
        "time": "2023-11-14T22:13:20.006Z",
        "level": "info",
        "logger": "goqueue.x",
        "message": "m",
    }


@given(hostile)
def test_a_hostile_name_forges_no_record(name: str) -> None:
    for text in (name, f"a\n{FORGED}", f"\r{name}\x1b[2K"):
        with heard() as stderr:
            logging.getLogger("goqueue.topics").warning("topic %s is away", text)
        assert stderr.getvalue().count("\n") == 1
        assert stderr.getvalue()[:-1].isprintable()


@given(hostile)
def test_a_hostile_error_forges_no_record_in_the_traceback(name: str) -> None:
    with heard() as stderr:
        try:
            raise ValueError(f"{name}\n{FORGED}\n{name}")
        except ValueError:
            logging.getLogger("goqueue.requests").exception("Fetch could not be served")
    first, *rest = stderr.getvalue().split("\n")[:-1]
    assert RECORD.fullmatch(first)
    assert "    Traceback (most recent call last):" in rest
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


@given(hostile)
def test_json_is_an_object_a_line_with_its_traceback(name: str) -> None:
    with heard(log_format=JSON) as stderr:
        try:
            raise ValueError(name)
        except ValueError:
            logging.getLogger("goqueue.requests").exception("%s could not be served", name)
        logging.getLogger("goqueue.serve").info("stopped", extra={"facts": {"reason": name}})
    first, second = map(json.loads, stderr.getvalue().split("\n")[:-1])
    assert (first["level"], first["message"]) == ("error", f"{name} could not be served")
    assert first["traceback"].startswith("Traceback (most recent call last):")
    assert name in first["traceback"]
    assert (second["logger"], second["facts"]) == ("goqueue.serve", {"reason": name})


@pytest.mark.parametrize(("level", "said"), [("debug", "diwe"), ("info", "iwe"), ("warning", "we"), ("error", "e")])
def test_the_level_is_the_least_that_is_said(level: str, said: str) -> None:
    with heard(level) as stderr:
        logger = logging.getLogger("goqueue.x")
        for each in (logger.debug, logger.info, logger.warning, logger.error):
            each(each.__name__[0])
    assert "".join(line[-1] for line in stderr.getvalue().splitlines()) == said


def test_libraries_only_warn() -> None:
    with heard("debug") as stderr:
        logging.getLogger("wsproto").debug("a frame, with what is in it")
        logging.getLogger("wsproto").warning("odd")
    [line] = stderr.getvalue().splitlines()
    assert line.endswith("WARNING wsproto  odd")


def test_the_loggers_are_as_before_afterwards() -> None:
    root, own = logging.getLogger(), logging.getLogger("goqueue")
    before = (list(root.handlers), root.level, own.level)
    with heard("debug"):
        pass
    assert (list(root.handlers), root.level, own.level) == before


def audited() -> str:
    requester = audit.Requester(ANONYMOUS, "127.0.0.1", 7, "9")
    return audit.line(requester, "delete_topic", DeleteTopic("or\nders"), audit.DONE, lambda _: None)


def test_the_audit_is_an_object_in_json_and_its_own_line_in_text() -> None:
    for log_format in (TEXT, JSON):
        with heard(log_format=log_format) as stderr:
            logging.getLogger("goqueue.audit").info(audited())
        [line] = stderr.getvalue().splitlines()
        if log_format == TEXT:
            fields = json.loads(line.partition("goqueue.audit  ")[2])
        else:
            record = json.loads(line)
            fields = record["audit"]
            assert record["message"] == "delete_topic topic:or\nders: done"
        assert (fields["address"], fields["outcome"]) == ("127.0.0.1", "done")
