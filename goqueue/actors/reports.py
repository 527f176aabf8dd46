"""What a supervisor says about its children, so that no error gets lost when a restart hides it."""

import logging
from dataclasses import dataclass
from enum import Enum

logger = logging.getLogger("goqueue.actors")


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


def log_report(report: ChildReport) -> None:
    logger.error("%s: child %s %s", report.supervisor, report.child, report.fate.value, exc_info=report.error)
