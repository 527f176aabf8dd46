"""Where each message of the protocol says which kind it is, and a request what answers it.

A request has an even number from 16 on; its answer has a number of its own, or is an `Error`. A number is for ever:
what is no longer said leaves its number unused.
"""

import re
from collections.abc import Callable
from typing import TypeVar

BodyT = TypeVar("BodyT")

REGISTERED: dict[int, type] = {}
"""The class of each kind."""
ANSWER_NAMES: dict[type, str] = {}
"""For each request the name of the class that answers it: it may be defined later."""


def kind(number: int, answer: str | None = None) -> Callable[[type[BodyT]], type[BodyT]]:
    """The number of a message on the wire."""

    def register(body: type[BodyT]) -> type[BodyT]:
        assert number not in REGISTERED, f"{number} is {REGISTERED[number].__name__}"
        REGISTERED[number] = body
        if answer is not None:
            ANSWER_NAMES[body] = answer
        return body

    return register


def name_of(number: int) -> str:
    """As the protocol's page and errors name it: `join_group`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", REGISTERED[number].__name__).lower()
