"""Parses each kind of option from its text. Bad text raises `ValueError` or an error of goqueue."""

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from goqueue.client.link.address import address_of
from goqueue.errors import GoQueueError, InvalidConfig

T = TypeVar("T")
D = TypeVar("D")
Check = Callable[[str], str]

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1


class OptionFaults:
    """Options by their names in lower case, and all their faults."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self._faults: list[str] = []

    def read(self, name: str, reader: Callable[[str], T], *, default: D) -> T | D:
        text = self._given.get(name.lower())
        if text is None:
            return default
        try:
            return reader(text)
        except (ValueError, GoQueueError) as error:
            self.add(f"{name}: {error}")
            return default

    def need(self, name: str, reader: Callable[[str], T], default: T) -> T:
        if name.lower() not in self._given:
            self.add(f"{name} is missing")
        return self.read(name, reader, default=default)

    def add(self, fault: str) -> None:
        self._faults.append(fault)

    def refuse(self, names: Sequence[str], why: str) -> None:
        self._faults += [f"{name} does not go here: {why}" for name in names if name.lower() in self._given]

    def exactly_one(self, names: Sequence[str]) -> None:
        given = [name for name in names if name.lower() in self._given]
        if len(given) != 1:
            there = f"are {' and '.join(given)}" if given else "is none"
            self.add(f"give one of {', '.join(names)}; there {there}")

    def tell(self, of_what: str) -> None:
        if self._faults:
            raise InvalidConfig(f"{of_what} are wrong: {'; '.join(self._faults)}", faults=list(self._faults))


def nearest(name: str, names: Sequence[str]) -> str | None:
    by_lower = {each.lower(): each for each in names}
    found = get_close_matches(name, by_lower, n=1)
    return by_lower[found[0]] if found else None


def address(text: str) -> str:
    address_of(text)
    return text


def truth(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


def whole_number(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if re.fullmatch(r"-?[0-9]{1,19}", text.strip()) and least <= (number := int(text)) <= LONG_MAX:
            return number
        raise ValueError(f"{text!r} is not a whole number of {least} or more")

    return read


def regular_expression(text: str) -> str:
    """Without Python's warnings of patterns that may change their meaning: they would not help a reader."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None
    return text


def topics_of(text: str, check: Check) -> tuple[str, ...]:
    """`orders, payments`: each once, in this order."""
    names = [name.strip() for name in text.split(",")]
    return tuple(check(name) for name in dict.fromkeys(names))


def one_of_the_names(text: str, names: Mapping[str, int]) -> int:
    try:
        return names[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither {' nor '.join(names)} nor JSON {_OFFSETS_LIKE}") from None


_OFFSETS_LIKE = 'like {"orders": {"0": 23, "1": -2}}'
_END_OF_THE_LOG = {-2: "-2 (earliest)", -1: "-1 (latest)"}
_PARTITIONS_LIKE = 'like {"orders": [0, 1]}'


def partitions_of(text: str, check: Check) -> Mapping[str, tuple[int, ...]]:
    """`assign`: the partitions to read, by topic."""
    return {check(topic): _numbers(numbers) for topic, numbers in _object(text, _PARTITIONS_LIKE).items()}


def _numbers(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or not given:
        raise ValueError(f"{json.dumps(given)} is not a list of partitions, {_PARTITIONS_LIKE}")
    return tuple(sorted({_partition(json.dumps(each)) for each in given}))


def offsets_of(text: str, check: Check, special: frozenset[int]) -> Mapping[str, Mapping[int, int]]:
    """`special` are the negative numbers that mean an end of the log."""
    return {check(topic): _offsets(given, special) for topic, given in _object(text, _OFFSETS_LIKE).items()}


def _offsets(given: Any, special: frozenset[int]) -> Mapping[int, int]:
    if not isinstance(given, dict) or not given:
        raise ValueError(f"{json.dumps(given)} does not give offsets by partition, {_OFFSETS_LIKE}")
    return {_partition(partition): _offset(offset, special) for partition, offset in given.items()}


def _partition(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,10}", text) and int(text) <= INT_MAX:
        return int(text)
    raise ValueError(f"{text} is not the number of a partition")


def _offset(given: Any, special: frozenset[int]) -> int:
    if type(given) is int and (given in special or 0 <= given <= LONG_MAX):
        return given
    ends = " or ".join(_END_OF_THE_LOG[number] for number in sorted(special))
    raise ValueError(f"{json.dumps(given)} is no offset here: a whole number from 0, or {ends}")


def _object(text: str, like: str) -> dict[str, Any]:
    try:
        given = json.loads(text, object_pairs_hook=_each_once)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{text[:100]!r} is not JSON {like}: {error}") from None
    if not isinstance(given, dict) or not given:
        raise ValueError(f"{text[:100]!r} is not JSON {like}")
    return given


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON allows a name twice, and Python takes the last; here it is a mistake."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError(f"a name stands twice among {', '.join(name for name, _ in pairs)}")
    return made
