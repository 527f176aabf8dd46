"""A supervisor's reports about its children, so that no error gets lost when a restart hides it."""

import logging
from dataclasses import dataclass
from enum import Enum

logger = logging.getLogger("goqueue.actors")

ERROR_TEXT_MAX = 500
"""Maximum number of characters of an error's text in the log."""


class Fate(Enum):
    RESTARTING = "ended and is started again"
    LOST = "crashed and is not started again"
    GIVEN_UP = "crashed and takes its supervisor with it"
    STOP_FAILED = "crashed while it was stopped"
    CUT_OFF = "did not stop in time and was cancelled"


@dataclass(frozen=True, slots=True)
class ChildReport:
    supervisor: str
    child: str
    fate: Fate
    error: Exception | None
    kind: str
    restart: int
    """The number of the restart that follows, over the child's life."""


def log_report(report: ChildReport) -> None:
    """One line, whatever the error's text: an actor that crashes again and again must not fill the log."""
    logger.error("%s (a child of %s)", _sentence(report), report.supervisor)
    if report.error is not None:
        logger.debug("where %s failed", report.child, exc_info=report.error)


def _sentence(report: ChildReport) -> str:
    named = report.child if report.kind == report.child else f"{report.kind} {report.child}"
    after = "" if report.error is None else f" after {_one_line(report.error)}"
    if report.fate is Fate.RESTARTING:
        return f"restart {report.restart} of {named}{after}"
    return f"{named} {report.fate.value}{after}"


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())[:ERROR_TEXT_MAX]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
