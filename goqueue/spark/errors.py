"""Finds goqueue's errors inside of Spark's."""

import re
from typing import TYPE_CHECKING, Any

from goqueue import errors
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError

_OURS = re.compile(r"goqueue\.errors\.([A-Za-z]+): (.+)")


def our_error(trace: str) -> GoQueueError | None:
    """The last goqueue error in a stack trace."""
    for name, message in reversed(_OURS.findall(trace)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, GoQueueError):
            return _made(kind, message.strip())
    return None


def reason_of(error: "Py4JJavaError") -> str:
    """The message of the Java exception, without its stack trace."""
    thrown: Any = error.java_exception
    return str(thrown.getMessage() or thrown.getClass().getName())


def _made(kind: type[GoQueueError], message: str) -> GoQueueError:
    """Some classes need more arguments than a message."""
    try:
        return kind(message)
    except TypeError:
        return GoQueueError(message)
