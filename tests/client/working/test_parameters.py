"""What a worker can be told, and what it cannot."""

from functools import partial
from typing import Any

import pytest

import goqueue
from goqueue.client.consuming.reasons import reason_of
from goqueue.client.working.worker import is_async
from goqueue.errors import InvalidConfig, InvalidName
from tests.client.working.workers import do_nothing

# Parameters


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"concurrency": 0}, InvalidConfig),
        ({"concurrency": True}, InvalidConfig),
        ({"drain_timeout": -1}, InvalidConfig),
        ({"drain_timeout": "soon"}, InvalidConfig),
        ({"handle_signals": 1}, InvalidConfig),
        ({"visibility_timeout": 0}, InvalidConfig),
        ({"assignor": "fair"}, InvalidConfig),
        ({"rebalance": "lazy"}, InvalidConfig),
        ({"start": "whenever"}, InvalidConfig),
        ({"group": "no group"}, InvalidName),
        ({"topic": "no topic"}, InvalidName),
        ({"topic": 3}, InvalidName),
        ({"url": "http://127.0.0.1"}, InvalidConfig),
        ({"url": 5}, InvalidConfig),
        ({"handler": None}, TypeError),
        ({"handler": print}, TypeError),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_it_runs(options: dict[str, Any], refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        goqueue.Worker(**{"topic": "orders", "group": "billing", "handler": do_nothing, **options})


class AsyncObject:
    async def __call__(self, message: goqueue.DeliveredMessage) -> None: ...


def test_async_functions_are_recognised_in_whatever_they_are_wrapped() -> None:
    assert all(map(is_async, [do_nothing, partial(do_nothing), AsyncObject(), AsyncObject().__call__]))
    assert not any(map(is_async, [print, AsyncObject, None, partial(print)]))


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_a_reason_has_type_and_text_and_a_bounded_length() -> None:
    assert reason_of(KeyError("a")) == "KeyError: 'a'"
    assert reason_of(ValueError()) == "ValueError"
    assert reason_of(Mute()) == "Mute: its text cannot be had"
    assert len(reason_of(ValueError("\udcff" * 5_000))) == 1_000
