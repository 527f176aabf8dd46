"""The table of routes: raw paths, names with anything in them, methods."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.http.routes import ROUTES
from goqueue.http.routing.route import HttpCall, Route
from goqueue.http.routing.table import PARAMETERS_MAX, RouteTable, decoded, parameters
from goqueue.http.server.errors import InvalidRequest, MethodNotAllowed, NotFound


async def nothing(_: HttpCall[Any, Any]) -> None:
    """A handler that is never called."""


def route(method: str, path: str, **more: Any) -> Route:
    return Route(method, path, nothing, "", "Tests", **more)


TABLE = RouteTable(
    [
        route("GET", "/"),
        route("GET", "/a"),
        route("POST", "/a"),
        route("GET", "/a/{name}"),
        route("GET", "/a/known"),
        route("DELETE", "/a/{other}/b/{number}"),
        route("GET", "/a/known/b"),
        route("GET", "/take", is_safe=False),
    ]
)


@pytest.mark.parametrize(
    ("path", "found", "values"),
    [
        ("/", "/", {}),
        ("/a", "/a", {}),
        ("/v1/a", "/a", {}),
        ("/v1", "/", {}),
        ("/%61", "/a", {}),
        ("/a/x", "/a/{name}", {"name": "x"}),
        ("/a/x%2Fy", "/a/{name}", {"name": "x/y"}),
        ("/a/x%2fy", "/a/{name}", {"name": "x/y"}),
        ("/a/..", "/a/{name}", {"name": ".."}),
        ("/a/.", "/a/{name}", {"name": "."}),
        ("/a/%2e%2e", "/a/{name}", {"name": ".."}),
        ("/a/x+y", "/a/{name}", {"name": "x+y"}),
        ("/a/gr%C3%BCn", "/a/{name}", {"name": "grün"}),
        ("/a/%00", "/a/{name}", {"name": "\0"}),
        ("/a/%25", "/a/{name}", {"name": "%"}),
        ("/a/known", "/a/known", {}),
        ("/a/v1", "/a/{name}", {"name": "v1"}),
    ],
)
def test_a_path_is_split_before_it_is_decoded(path: str, found: str, values: dict[str, str]) -> None:
    """Dots are names, not steps; `%2F` is part of a name."""
    route, parameters = TABLE.find("GET", path)
    assert (route.path, parameters) == (found, values)


def test_where_a_literal_leads_nowhere_the_parameter_is_tried() -> None:
    route, values = TABLE.find("DELETE", "/a/known/b/7")
    assert (route.path, values) == ("/a/{other}/b/{number}", {"other": "known", "number": "7"})


@pytest.mark.parametrize(
    "path", ["/b", "/a/", "//a", "/a//b/7", "/a/x/y", "/v1/v1/a", "/v2/a", "/A", "/a/../a/x", "/a/known/b/"]
)
def test_nothing_is_guessed_and_nothing_redirected(path: str) -> None:
    with pytest.raises(NotFound):
        TABLE.find("GET", path)


@pytest.mark.parametrize("path", ["/a/%", "/a/%4", "/a/%zz", "/a/%ff", "/a/%C3", "/a/%ED%A0%80"])
def test_what_is_no_utf_8_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest):
        TABLE.find("GET", path)


def test_head_is_where_get_is_unless_that_takes_something() -> None:
    assert TABLE.find("HEAD", "/a")[0].method == "GET"
    with pytest.raises(MethodNotAllowed):
        TABLE.find("HEAD", "/a/known/b/7")
    with pytest.raises(MethodNotAllowed) as refused:
        TABLE.find("HEAD", "/take")
    assert refused.value.details["allow"] == "GET, OPTIONS"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "TRACE", "CONNECT", "get", "BREW", "OPTION"])
def test_another_method_is_told_which_there_are(method: str) -> None:
    with pytest.raises(MethodNotAllowed) as refused:
        TABLE.find(method, "/a")
    assert refused.value.details["allow"] == "GET, HEAD, OPTIONS, POST"


def test_poll_is_the_only_get_that_takes_something() -> None:
    assert [each.path for each in ROUTES if not each.is_safe] == ["/groups/{group}/poll"]


@given(st.text(min_size=1))
def test_every_name_that_is_encoded_comes_back(name: str) -> None:
    try:
        raw = "".join(f"%{byte:02X}" for byte in name.encode())
    except UnicodeEncodeError:
        return
    assert TABLE.find("DELETE", f"/a/{raw}/b/1")[1]["other"] == name
    assert parameters(f"{raw}={raw}") == {name: name}


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40))
def test_any_path_finds_a_route_or_is_refused(path: str) -> None:
    try:
        route, values = TABLE.find("GET", f"/{path}")
    except (NotFound, MethodNotAllowed, InvalidRequest):
        return
    assert len(values) == route.path.count("{")


# The registry's second root

REGISTRY = RouteTable(
    [
        route("GET", "/", of_registry=True),
        route("GET", "/topics"),
        route("GET", "/subjects/{subject}", of_registry=True),
        route("GET", "/schemas", of_registry=True),
        route("GET", "/schemas/ids/{id}", of_registry=True),
        route("GET", "/schemas/stats"),
    ]
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/", "/"),
        ("/schemas/", "/"),
        ("/subjects/a%2Fb", "/subjects/{subject}"),
        ("/schemas/subjects/a%2Fb", "/subjects/{subject}"),
        ("/schemas", "/schemas"),
        ("/schemas/schemas", "/schemas"),
        ("/schemas/ids/1", "/schemas/ids/{id}"),
        ("/schemas/schemas/ids/1", "/schemas/ids/{id}"),
        ("/v1/schemas/stats", "/schemas/stats"),
    ],
)
def test_the_registry_is_whole_at_the_root_and_beneath_schemas(path: str, found: str) -> None:
    assert REGISTRY.find("GET", path)[0].path == found


@pytest.mark.parametrize(
    "path",
    [
        "/v1/subjects/a",
        "/v1/schemas/ids/1",
        "/v1/schemas/subjects/a",
        "/schemas/v1/subjects/a",
        "/schemas/topics",
        "/schemas/schemas/schemas/ids/1",
        "/subjects/",
        "/schemas/subjects/",
    ],
)
def test_the_registry_has_no_version_and_nothing_else_has_a_second_root(path: str) -> None:
    with pytest.raises(NotFound):
        REGISTRY.find("GET", path)


def test_who_asks_beneath_the_registry_is_a_client_of_it() -> None:
    for path in ("/", "/subjects", "/subjects/", "/subjects/a/b/c/d", "/schemas/nothing", "/associations/x"):
        assert REGISTRY.is_of_registry(path), path
    for path in ("", "/topics", "/subject", "/v1/subjects", "/nothing/subjects"):
        assert not REGISTRY.is_of_registry(path), path


def test_a_method_that_the_registry_does_not_have_is_no_unknown_path() -> None:
    with pytest.raises(MethodNotAllowed):
        REGISTRY.find("POST", "/schemas/subjects/a")


# Queries


def test_a_query_is_names_and_values() -> None:
    assert parameters("") == {}
    assert parameters("a=1&b=x+y%2B&c=&d") == {"a": "1", "b": "x y+", "c": "", "d": ""}
    assert parameters("&&a=1&") == {"a": "1"}
    assert parameters("a=b=c") == {"a": "b=c"}


def test_a_parameter_that_is_a_list_may_be_given_more_than_once() -> None:
    assert parameters("a=1&b=2&a=x+y", ("a",)) == {"a": ["1", "x y"], "b": "2"}


@pytest.mark.parametrize("query", ["a=1&a=1", "a=1&%61=2", "=1", "a=%", "a=%ff", "&".join(map(str, range(200)))])
def test_a_query_that_could_mean_two_things_is_refused(query: str) -> None:
    assert PARAMETERS_MAX < 200
    with pytest.raises(InvalidRequest):
        parameters(query)


def test_text_without_percent_signs_stays_as_it_is() -> None:
    assert decoded("a+b") == "a+b"
    assert decoded("a+b", plus_is_space=True) == "a b"
