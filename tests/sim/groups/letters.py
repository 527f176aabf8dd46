"""Dead letters as they lie in their topics: each once, as its message was, with the right story in its headers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import goqueue
from goqueue.core.groups.deadletter import Story as Headers
from tests.sim.clients.history import ClientHistory, Place
from tests.sim.disk.history import Violation
from tests.sim.groups.plan import GroupSetup


@dataclass(frozen=True, slots=True)
class DeadLetter:
    origin: Place
    headers: Headers
    message: goqueue.Message


def letters_in(messages: Iterable[goqueue.Message]) -> list[DeadLetter]:
    letters = []
    for message in messages:
        headers = Headers.from_headers(message.headers)
        if headers is None:
            raise Violation(f"§6: {message.value[:30]!r} in {message.topic} does not say where it comes from")
        letters.append(DeadLetter(Place(headers.topic, headers.partition, headers.offset), headers, message))
    return letters


def of_group(letters: Iterable[DeadLetter], group: str) -> list[DeadLetter]:
    return [letter for letter in letters if letter.headers.group == group]


class LetterBox:
    """The dead letters of a world, compared with what was there before."""

    def __init__(self, clients: ClientHistory, setups: Sequence[GroupSetup]) -> None:
        self._clients = clients
        self._setups: Mapping[str, GroupSetup] = {setup.name: setup for setup in setups}
        self.letters: list[DeadLetter] = []

    def check(self, letters: list[DeadLetter]) -> None:
        self._check_none_is_gone(letters)
        self._check_each_is_there_once(letters)
        for letter in letters:
            self._check_content(letter)
            self._check_headers(letter)
        self.letters = letters

    def _check_none_is_gone(self, letters: Sequence[DeadLetter]) -> None:
        there = {(letter.headers.group, letter.origin) for letter in letters}
        for letter in self.letters:
            if (letter.headers.group, letter.origin) not in there:
                raise Violation(f"G1: the dead letter of {letter.origin} is gone")

    def _check_each_is_there_once(self, letters: Sequence[DeadLetter]) -> None:
        seen: dict[tuple[str, Place], DeadLetter] = {}
        for letter in letters:
            first = seen.setdefault((letter.headers.group, letter.origin), letter)
            if first is not letter:
                raise Violation(f"G5: {letter.headers} is a dead letter twice, first as {first.headers}")

    def _check_content(self, letter: DeadLetter) -> None:
        message, sent = letter.message, self._clients.sent.get(letter.message.value)
        if sent is None or self._clients.kept.get(letter.origin, message.value) != message.value:
            raise Violation(f"§6: the dead letter of {letter.origin} is {message.value[:30]!r}")
        if message.key != sent.key or message.partition != letter.origin.partition:
            raise Violation(f"§6: {message.value[:30]!r} has another key or partition as a dead letter")

    def _check_headers(self, letter: DeadLetter) -> None:
        headers, setup = letter.headers, self._setups.get(letter.headers.group)
        if setup is None or message_topic(letter) != headers.topic:
            raise Violation(f"§6: {headers} names another group or topic")
        most = setup.max_deliveries or headers.attempts
        if not 1 <= headers.attempts <= most or not headers.reason:
            raise Violation(f"§6: {headers}, where {setup.max_deliveries} deliveries are allowed")


def message_topic(letter: DeadLetter) -> str:
    return letter.message.topic.removesuffix(".dlq")
