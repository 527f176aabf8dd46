"""Errors of ours that come back from Spark inside of its own."""

import re
from typing import TYPE_CHECKING, Any

from goqueue import errors
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError

_OURS = re.compile(r"goqueue\.errors\.([A-Za-z]+): (.+)")


def our_error(trace: str) -> GoQueueError | None:
    """The last that a stack trace tells."""
    for name, message in reversed(_OURS.findall(trace)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, GoQueueError):
            return _made(kind, message.strip())
    return None


def reason_of(error: "Py4JJavaError") -> str:
    """What Java itself says, without where it was said."""
    thrown: Any = error.java_exception
    return str(thrown.getMessage() or thrown.getClass().getName())


def _made(kind: type[GoQueueError], message: str) -> GoQueueError:
    """Some need more than a message to be made."""
    try:
        return kind(message)
    except TypeError:
        return GoQueueError(message)
