"""What a value breaks: the path to it, the keyword, and what the schema says there. Never the value.

Names of properties belong to the path, so a property that is not allowed is named; text and numbers are not.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import orjson

from goqueue.core.schemas.reading.refusing import shortened
from goqueue.core.schemas.validation.forms import is_hidden_union

LIMIT_LENGTH_MAX = 60
_KNOWN_BY_KIND = (
    jsonschema_rs.ValidationErrorKind.FalseSchema,
    jsonschema_rs.ValidationErrorKind.PropertyNames,
)
"""The path in the schema ends elsewhere: in the name of a property, or in what the names are held to."""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Fault:
    path: str
    """As `$.items[3].price`."""
    keyword: str
    limit: str = ""
    """What the schema wants, short; empty where the keyword says enough."""


def fault_of(validator: jsonschema_rs.Validator, value: Any) -> Fault | None:
    """None: the validator does not say, which it does not for values that are nested deep."""
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return _fault(error)
    except ValueError:
        return None
    return None


def _fault(error: jsonschema_rs.ValidationError) -> Fault:
    kind = error.kind
    steps = list(error.instance_path)
    unexpected = getattr(kind, "unexpected", None)
    if isinstance(unexpected, list) and unexpected:
        steps.append(unexpected[0])
    return Fault(path_of(steps), _keyword(error), _limit(kind))


def _keyword(error: jsonschema_rs.ValidationError) -> str:
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Not):
        return is_hidden_union(error.kind.schema) or "not"
    if isinstance(error.kind, _KNOWN_BY_KIND):
        return error.kind.name
    last = [step for step in error.schema_path if isinstance(step, str)][-1:]
    return last[0] if last else error.kind.name


def _limit(kind: jsonschema_rs.ValidationErrorKind) -> str:
    for name in ("limit", "property", "types", "pattern", "expected_value", "multiple_of"):
        if hasattr(kind, name):
            return shortened(_as_json(_one_of(name, getattr(kind, name))), LIMIT_LENGTH_MAX)
    return ""


def _one_of(name: str, value: Any) -> Any:
    return value[0] if name == "types" and len(value) == 1 else value


def _as_json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return str(value)


def path_of(steps: Sequence[str | int]) -> str:
    """As people write the path to a part of a value: `$.items[3]["unit price"]`."""
    return "$" + "".join(map(_step, steps))


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{_as_json(step)}]"
