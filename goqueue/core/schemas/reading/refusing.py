"""How a schema is refused: where, and why."""

from collections.abc import Sequence

from goqueue.errors import InvalidSchema

NOT_A_SCHEMA = 42201
"""The number by which clients of Confluent's registry know a schema that is refused for itself."""

_PATH_LENGTH_MAX, _REASON_LENGTH_MAX = 300, 500


def refused(path: str, reason: str) -> InvalidSchema:
    text = f"{shortened(path, _PATH_LENGTH_MAX)}: {shortened(reason, _REASON_LENGTH_MAX)}"
    return InvalidSchema(text, error_code=NOT_A_SCHEMA, path=shortened(path, _PATH_LENGTH_MAX))


def pointer(steps: Sequence[str | int]) -> str:
    """A JSON pointer as the fragment of a URI, as people read it."""
    return "#" + "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def shortened(text: str, length_max: int) -> str:
    """At most so many characters; the middle is left out."""
    if len(text) <= length_max:
        return text
    head = (length_max - 1) // 2
    return f"{text[:head]}…{text[len(text) - (length_max - 1 - head) :]}"
