"""JSON values as schemas compare them: 1 and 1.0 are equal, 1 and true are not, and 0.1 is a tenth."""

import json
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any, TypeAlias, TypeGuard

from goqueue.errors import InvalidSchema

Json: TypeAlias = Any
Number: TypeAlias = int | Decimal

SHOWN_MAX = 200
"""Characters of a value that a finding shows."""
DIGITS_MAX = 1_000
EXPONENT_MAX = 400
"""Beyond 10^400 a number stays as it was written: nobody spells out a million zeros."""


class Absent:
    """Stands for a keyword that is not there."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


def parsed(text: str) -> Json:
    """Nesting is limited to 128 before: the registry takes no deeper schema."""
    try:
        return json.loads(text, parse_float=_number, parse_constant=_no_number)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidSchema(f"the schema is not JSON: {error}", error_code=42201) from None


def _number(literal: str) -> Number:
    if len(literal) > DIGITS_MAX:
        raise ValueError(f"a number has more than {DIGITS_MAX:,} digits")
    number = Decimal(literal)
    is_whole = -EXPONENT_MAX < number.adjusted() < EXPONENT_MAX and number == number.to_integral_value()
    return int(number) if is_whole else number


def _no_number(literal: str) -> Number:
    raise ValueError(f"{literal} is no number of JSON")


def is_number(value: Json) -> TypeGuard[Number]:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def key_of(value: Json) -> str:
    """Two values are equal in JSON Schema when their keys are."""
    return json.dumps(value, sort_keys=True, default=_exactly)


def _exactly(number: Decimal) -> dict[str, str]:
    sign, digits, exponent = number.as_tuple()
    significant = "".join(map(str, digits)).strip("0")
    dropped = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return {"\0number": f"{sign} {significant} {int(exponent) + dropped}"}


def is_multiple(number: Number, of: Number) -> bool:
    """False where the numbers are too far apart to tell."""
    if number == of:
        return True
    if not all(-EXPONENT_MAX < Decimal(each).adjusted() < EXPONENT_MAX for each in (number, of)) or not of:
        return False
    return (Fraction(number) / Fraction(of)).denominator == 1


def shown(value: Json | Absent) -> str:
    """Short JSON, for a person; empty where there is no value."""
    if isinstance(value, Absent):
        return ""
    text, pieces = "", json.JSONEncoder(ensure_ascii=False, default=_roughly).iterencode(value)
    for piece in islice(pieces, SHOWN_MAX):
        text += piece
        if len(text) > SHOWN_MAX:
            return text[: SHOWN_MAX - 1] + "…"
    return text


def _roughly(number: Decimal) -> float | str:
    return float(number) if -300 < number.adjusted() < 300 else str(number)
