"""Values that are JSON: compact, in UTF-8, as the standard library writes it.

NaN and the infinities are no JSON and are refused both ways. A refusal says what is wrong, not what was given.
"""

import json
from typing import Any, NoReturn

from goqueue.errors import InvalidMessage


def json_bytes(value: object) -> bytes:
    """The value as JSON, keys in the order given."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except UnicodeEncodeError:
        fault = "it has text with lone surrogates, which UTF-8 cannot hold"
    except RecursionError:
        fault = "it is nested too deeply, or contains itself"
    except (TypeError, ValueError) as error:
        fault = str(error)
    raise InvalidMessage(f"the value cannot be written as JSON: {fault}")


def value_of_json(data: bytes) -> Any:
    """What JSON says. A ValueError says why it is no JSON, without a word of the data."""
    try:
        return json.loads(data.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        fault = f"byte {error.start} is not UTF-8"
    except json.JSONDecodeError as error:
        fault = f"{error.msg[:1].lower()}{error.msg[1:]} at character {error.pos}"
    except RecursionError:
        fault = "it is nested too deeply"
    except ValueError as error:
        fault = str(error)
    raise ValueError(fault)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
