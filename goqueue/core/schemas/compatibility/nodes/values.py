"""JSON values as schemas compare them: 1 and 1.0 are equal, 1 and true are not, and 0.1 is a tenth."""

import json
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any, TypeAlias, TypeGuard

Json: TypeAlias = Any
Number: TypeAlias = int | float

SHOWN_MAX = 200
"""Characters of a value that a finding shows."""


class Absence:
    """Stands for a keyword that is not there."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absence()


def is_number(value: Json) -> TypeGuard[Number]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def key_of(value: Json) -> str:
    """Two values are equal in JSON Schema when their keys are."""
    key = json.dumps(value, sort_keys=True)
    may_have_fractions = "." in key or "e" in key.replace("true", "").replace("false", "")
    return json.dumps(_whole(value), sort_keys=True) if may_have_fractions else key


def _whole(value: Json) -> Json:
    """With 1 in place of 1.0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    return value


def is_multiple(number: Number, of: Number) -> bool:
    return number == of or (of != 0 and (_exactly(number) / _exactly(of)).denominator == 1)


def _exactly(number: Number) -> Fraction:
    """As it was written: three tenths, and not what a float makes of them."""
    return Fraction(Decimal(repr(number)))


def shown(value: Json | Absence) -> str:
    """Short JSON, for a person; empty where there is no value."""
    if isinstance(value, Absence):
        return ""
    text, pieces = "", json.JSONEncoder(ensure_ascii=False).iterencode(value)
    for piece in islice(pieces, SHOWN_MAX):
        text += piece
        if len(text) > SHOWN_MAX:
            return text[: SHOWN_MAX - 1] + "…"
    return text
