"""The log of a broker: lines of text for people, or a JSON object a line for programs, on stderr.

Names come from clients and may hold anything. A record must not look like two, nor command a terminal: everything
unprintable is escaped, and the lines of a traceback are indented. So a line that begins with a time is a record.

What a record says in numbers travels beside its sentence, as `facts`: JSON has both.
"""

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from goqueue.cli.program.output import printable

TEXT, JSON = "text", "json"
AUDIT = "goqueue.audit"
INDENT = "    "


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z WARNING goqueue.janitor  a sentence`, and below it the traceback, if any."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_moment(record)} {record.levelname:<7} {record.name}  {printable(record.getMessage())}"
        return "\n".join([line, *(INDENT + printable(each) for each in _traceback(self, record).splitlines())])


class JsonFormatter(logging.Formatter):
    """An object with time, level, logger and message; facts, audit and traceback where there are some."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= _more(record)
        if traceback := _traceback(self, record):
            fields["traceback"] = traceback
        return json.dumps(fields, default=str)


@contextmanager
def logging_to_stderr(level: str, log_format: str) -> Iterator[None]:
    """All loggers write to stderr. Those of libraries only warn: their details are not the broker's."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == JSON else TextFormatter())
    root, own = logging.getLogger(), logging.getLogger("goqueue")
    levels = root.level, own.level
    root.addHandler(handler)
    own.setLevel(level.upper())
    root.setLevel(max(logging.WARNING, own.level))
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        own.setLevel(levels[1])


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info and record.exc_info[1] else []
    return "\n".join([*parts, record.stack_info] if record.stack_info else parts)


def _more(record: logging.LogRecord) -> dict[str, Any]:
    """The audit's sentence is an object already: as text it would have to be taken apart twice."""
    if record.name == AUDIT:
        fields = json.loads(record.getMessage())
        return {"message": f"{fields['request']} {fields['resource']}: {fields['outcome']}", "audit": fields}
    facts = getattr(record, "facts", None)
    return {"facts": facts} if isinstance(facts, Mapping) else {}
