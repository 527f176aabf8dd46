"""Checks the contents of messages before they are encoded: types, sizes and names."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from operator import index
from reprlib import repr as shortened
from types import NoneType
from typing import Any

from goqueue.client.link.arguments import is_text
from goqueue.core.records.record import HEADERS_SIZE_MAX, KEY_SIZE_MAX, VALUE_SIZE_MAX
from goqueue.errors import InvalidMessage, TooLarge
from goqueue.types import Acks, Priority


def check_content(value: object, key: object, headers: object) -> None:
    """Text is refused: the program decides on its encoding. None is the value of a tombstone."""
    if type(value) is bytes and len(value) <= VALUE_SIZE_MAX and key is None and headers is None:
        return  # most messages
    if value is not None and not isinstance(value, bytes):
        how = "" if isinstance(value, str) else ", as publish_json and send_json do"
        raise InvalidMessage(f"a value is bytes, not {type(value).__name__}; encode it{how}")
    if key is not None and not isinstance(key, bytes):
        raise InvalidMessage(f"a key is bytes, not {type(key).__name__}; encode it")
    if headers is not None:
        _check_headers(headers)
    if value is None and not key:
        raise InvalidMessage(
            "without a value it is a tombstone, which deletes a key; give the key, or b'' as the value"
        )
    _check_sizes(value or b"", key or b"", headers)


def all_sound(values: Sequence[object], keys: Sequence[object], headers: object) -> bool:
    """Whether `check_content` accepts all of these, checked at once for all of them."""
    kinds = {type(value) for value in values}
    if not (kinds <= {bytes, NoneType} and {type(key) for key in keys} <= {bytes, NoneType}):
        return False
    if NoneType in kinds and not all(key for value, key in zip_longest(values, keys) if value is None):
        return False
    try:
        check_content(_longest(values) or b"", _longest(keys), headers)
    except InvalidMessage:
        return False
    return True


def _longest(contents: Iterable[Any]) -> bytes | None:
    return max(filter(None, contents), key=len, default=None)


def _check_sizes(value: bytes, key: bytes, headers: Any) -> None:
    """Before memory is used for the encoding. The broker checks again, and checks the packed headers."""
    packed = sum(len(name) + len(each) for name, each in (headers or {}).items())
    for name, size, limit in (
        ("value has", len(value), VALUE_SIZE_MAX),
        ("key has", len(key), KEY_SIZE_MAX),
        ("headers have", packed, HEADERS_SIZE_MAX),
    ):
        if size > limit:
            raise TooLarge(f"the {name} {size} bytes; {limit} are allowed, put large things elsewhere")


def _check_headers(headers: object) -> None:
    if not isinstance(headers, Mapping):
        raise InvalidMessage(f"headers are a dict of text to bytes, not {type(headers).__name__}")
    for name, value in headers.items():
        if not is_text(name):
            raise InvalidMessage(f"a header's name is text that UTF-8 can hold, not {shortened(name)}")
        if not isinstance(value, bytes):
            raise InvalidMessage(f"header {shortened(name)} is {type(value).__name__}, not bytes; encode it")


def acks_of(acks: Acks | int | str) -> Acks:
    """Acks by name or number. True, which could mean any of them, is refused."""
    try:
        if isinstance(acks, str):
            return Acks[acks.upper()]
        return Acks(-1 if isinstance(acks, bool) else index(acks))
    except (KeyError, ValueError, TypeError):
        names = ", ".join(f"{each.name.lower()} ({each})" for each in Acks)
        raise InvalidMessage(f"acks={acks!r} is nothing to wait for; there are {names}") from None


def priority_of(priority: Priority | int | str) -> Priority:
    """A priority by its name, in any case, or its number. Neither True nor 2.0 is one."""
    if type(priority) is Priority:
        return priority  # most messages: a lookup would cost as much as a small message
    try:
        if isinstance(priority, str):
            return Priority[priority.upper()]
        return Priority(-1 if isinstance(priority, bool) else index(priority))
    except (KeyError, ValueError, TypeError):
        names = ", ".join(f"{each} ({each:d})" for each in Priority)
        raise InvalidMessage(f"{priority!r} is no priority; there are {names}") from None
