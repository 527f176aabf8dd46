"""Three surfaces, one set of names: what one can do, the others can, by the same words."""

import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, get_type_hints

import pytest

import goqueue
from goqueue import aio, blocking
from goqueue.client.client import Connecting
from goqueue.client.producing.options import SendOptions, send_options
from tests.client.test_client import BAD_ADDRESSES

KINDS = ["Client", "Consumer", "DeliveredMessage", "Producer", "Reader", "TypedProducer"]
FOR_THE_INSIDE = {
    "Client": {"call", "close", "open", "publish_as", "ready_publisher", "spawn"},
    "Consumer": {"be_patient", "extends_at_work", "next_batch", "serve", "take_back"},
    "DeliveredMessage": set[str](),
    "Producer": {
        *("is_idle", "open", "retire", "stop"),
        *(
            "acks",
            "adopt",
            "check_partition",
            "has_room_for",
            "idle_topic",
            "refresh_if_old",
            "room",
            "send_as",
            "send_within",
        ),
        *("send_as", "send_within", "take", "take_queued"),
    },
    "Reader": set[str](),
    "TypedProducer": {"begin"},
}
"""What the parts of the client for Trio use of each other. All else with a public name is for programs."""
WITHOUT_AWAIT = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
SURFACES: list[ModuleType] = [blocking, aio]


def names_of(kind: type, without: set[str]) -> dict[str, Callable[..., Any]]:
    """Public methods, and those behind `with` and `for` by their name in Trio."""
    spoken = {blocked: name for name, blocked in WITHOUT_AWAIT.items()}
    found = {
        spoken.get(name, name): function_of(value) for name, value in vars(kind).items() if name not in without
    }
    return {name: value for name, value in found.items() if name in WITHOUT_AWAIT or not name.startswith("_")}


def function_of(value: Any) -> Any:
    return value.fget if isinstance(value, property) else value


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Names, kinds, defaults and types."""
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_surface_has_the_names_of_the_others(kind: str, surface: ModuleType) -> None:
    trios = names_of(getattr(goqueue, kind), FOR_THE_INSIDE[kind])
    assert set(names_of(getattr(surface, kind), set())) == set(trios)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_name_has_the_parameters_defaults_and_types_that_it_has_elsewhere(kind: str, surface: ModuleType) -> None:
    here = names_of(getattr(surface, kind), set())
    for name, function in names_of(getattr(goqueue, kind), FOR_THE_INSIDE[kind]).items():
        assert parameters_of(here[name]) == parameters_of(function), name
        assert name in WITHOUT_AWAIT or answer_of(here[name]) == answer_of(function), name


@pytest.mark.parametrize("surface", [goqueue, *SURFACES], ids=lambda surface: surface.__name__)
def test_every_way_to_send_shows_the_options_with_their_types(surface: ModuleType) -> None:
    types = get_type_hints(SendOptions)
    ways = [surface.Client.publish] + [
        getattr(surface.Producer, name) for name in ("send", "send_nowait", "send_many", "send_many_nowait")
    ]
    for way in ways:
        shown = inspect.signature(way).parameters
        assert {name: each.annotation for name, each in shown.items() if name in types} == types
        assert {shown[name].kind for name in types} == {inspect.Parameter.KEYWORD_ONLY}
    assert set(inspect.signature(send_options).parameters) == {"now", *types}


def answer_of(function: Callable[..., Any]) -> str:
    """By name, since each surface has a Producer and a Reader of its own."""
    answer = inspect.signature(function).return_annotation
    return re.sub(r"\b\w+\.", "", str(answer)) if hasattr(answer, "__args__") else answer_name(answer)


def answer_name(answer: Any) -> str:
    return str(getattr(answer, "__name__", answer))


def test_a_name_waits_where_it_waits_in_trio() -> None:
    """`await` belongs to the same names for asyncio, and to none without an event loop."""
    for kind in KINDS:
        waiting = names_of(getattr(aio, kind), set())
        for name, function in names_of(getattr(goqueue, kind), FOR_THE_INSIDE[kind]).items():
            assert inspect.iscoroutinefunction(waiting[name]) == inspect.iscoroutinefunction(function), name
        assert not any(map(inspect.iscoroutinefunction, vars(getattr(blocking, kind)).values()))


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.__name__)
def test_connect_is_the_same(surface: ModuleType) -> None:
    assert parameters_of(surface.connect) == parameters_of(goqueue.connect)
    assert set(names_of(surface.Connecting, set())) == set(names_of(Connecting, set()))
    for url in BAD_ADDRESSES:
        with pytest.raises(goqueue.InvalidConfig, match="is not an address"):
            surface.connect(url)


def test_the_surfaces_are_there_after_an_import_of_goqueue_alone() -> None:
    assert goqueue.blocking is blocking
    assert goqueue.aio is aio
    with pytest.raises(AttributeError, match="nonsense"):
        goqueue.nonsense  # noqa: B018
