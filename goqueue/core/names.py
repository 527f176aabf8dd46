"""Which names topics and groups may have.

Names become folders, so this is the gate before every path: ASCII letters, digits, `.`, `_` and `-`, 1 to 196 of
them, neither `.` nor `..`. Names that begin with `__` are the broker's own; clients may not make or fill them.

`{topic}.dlq` is an ordinary name. The dead-letter topic of a topic with the longest name is four characters beyond
the limit: the broker may make it, and clients may publish to it once it is there.
"""

import re
from reprlib import repr as shortened

from goqueue.errors import InvalidName

NAME_LENGTH_MAX = 196
INTERNAL_PREFIX = "__"
DEAD_LETTER_SUFFIX = ".dlq"
METADATA_LOG = "__metadata"
SCHEMAS_LOG = "__schemas"
INTERNAL_LOGS = frozenset({METADATA_LOG, SCHEMAS_LOG})
"""Logs of the broker itself, whose folders stand among those of the topics."""

_SHAPE = re.compile(r"[A-Za-z0-9._-]+")
_ADVICE = f"use 1 to {NAME_LENGTH_MAX} letters, digits, '.', '_' or '-'"


REDRIVE = f"{INTERNAL_PREFIX}redrive"
"""The group that takes dead letters from their topic and sends them back."""


def is_internal(name: str) -> bool:
    return name.startswith(INTERNAL_PREFIX)


def dead_letter_topic(topic: str) -> str:
    return topic + DEAD_LETTER_SUFFIX


def check_topic_name(name: object, *, by_broker: bool = False) -> str:
    """The name of a topic that is to be made, or `InvalidName`."""
    room = len(DEAD_LETTER_SUFFIX) if by_broker and _is_dead_letter(name) else 0
    return _checked(name, "topic", NAME_LENGTH_MAX + room, by_broker)


def check_publishable(name: object) -> str:
    """The name of a topic that a client publishes to, changes or deletes; whether it exists is asked elsewhere."""
    room = len(DEAD_LETTER_SUFFIX) if _is_dead_letter(name) else 0
    return _checked(name, "topic", NAME_LENGTH_MAX + room, by_broker=False)


def check_letters_of(name: object) -> str:
    """The name of a topic whose dead letters are asked for. A dead-letter topic has none: it holds another's."""
    topic = check_publishable(name)
    if _is_dead_letter(topic):
        raise InvalidName(
            f"topic {topic} holds dead letters, and has none itself; give the topic that they come from, "
            f"{topic.removesuffix(DEAD_LETTER_SUFFIX)}"
        )
    return topic


def check_group_name(name: object, *, by_broker: bool = False) -> str:
    return _checked(name, "group", NAME_LENGTH_MAX, by_broker)


def _is_dead_letter(name: object) -> bool:
    return isinstance(name, str) and name.endswith(DEAD_LETTER_SUFFIX)


def _checked(name: object, kind: str, length_max: int, by_broker: bool) -> str:
    if not isinstance(name, str):
        raise InvalidName(f"a {kind} name is text, not {type(name).__name__}; {_ADVICE}")
    if not name:
        raise InvalidName(f"a {kind} name is not empty; {_ADVICE}")
    if len(name) > length_max:
        raise InvalidName(f"{kind} name {shortened(name)} has {len(name)} characters; {_ADVICE}")
    if not _SHAPE.fullmatch(name):
        raise InvalidName(f"{kind} name {shortened(name)} has characters that names cannot have; {_ADVICE}")
    if name in (".", ".."):
        raise InvalidName(f"{kind} name {name!r} means a folder; add a letter or a digit")
    if is_internal(name) and not by_broker:
        raise InvalidName(
            f"{kind} name {shortened(name)}: names that begin with '__' are the broker's; choose another"
        )
    return name
