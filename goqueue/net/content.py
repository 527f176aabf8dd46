"""What a program hands over, checked before it is encoded: types that would be encoded wrongly, and names."""

from collections.abc import Mapping

from goqueue.errors import InvalidMessage
from goqueue.types import Priority


def check_content(value: object, key: object, headers: object) -> None:
    """Text is refused: whether it is UTF-8 is for the program to say."""
    if not isinstance(value, bytes):
        raise InvalidMessage(f"a value is bytes, not {type(value).__name__}; encode it")
    if key is not None and not isinstance(key, bytes):
        raise InvalidMessage(f"a key is bytes, not {type(key).__name__}; encode it")
    if headers is not None and not _are_headers(headers):
        raise InvalidMessage("headers are a dict of text to bytes")


def _are_headers(headers: object) -> bool:
    if not isinstance(headers, Mapping):
        return False
    return all(isinstance(name, str) and isinstance(value, bytes) for name, value in headers.items())


def priority_of(priority: Priority | int | str) -> Priority:
    """A priority by its name or number."""
    try:
        return Priority[priority.upper()] if isinstance(priority, str) else Priority(priority)
    except (KeyError, ValueError):
        names = ", ".join(f"{each.name.lower()} ({each})" for each in Priority)
        raise InvalidMessage(f"{priority!r} is no priority; there are {names}") from None
