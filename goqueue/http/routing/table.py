"""Finds the route of a request by the segments of its raw path.

The path is split before it is decoded, so that `%2F` is part of a name. Dots are names, not steps, an empty segment
is no name, and nothing is redirected. `/v1/…` is the same as `/…`, except for the schema registry: its clients know
no version. They may take `/schemas` for the registry's address, so `/schemas/subjects` is the same as `/subjects`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from goqueue.http.routing.route import HttpCall, Route
from goqueue.http.server.errors import InvalidRequest, MethodNotAllowed, NotFound
from goqueue.http.server.exchange import Response

VERSION = "v1"
REGISTRY_ROOT = "schemas"
ASKED_IN_VAIN = ("associations", "dek-registry", "exporters")
"""What clients of the registry ask for as well; they go on without it, if the refusal has their form."""
OPTIONS = "OPTIONS"
PARAMETERS_MAX = 100


@dataclass(slots=True)
class _Place:
    literals: dict[str, "_Place"] = field(default_factory=dict)
    parameter: "_Place | None" = None
    routes: dict[str, Route] = field(default_factory=dict)

    @property
    def of_registry(self) -> bool:
        return any(route.of_registry for route in self.routes.values())


class RouteTable:
    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Place()
        own = {each for route in self.routes if route.of_registry for each in _segments(route.path)[:1]}
        self._heads = [[head] for head in (*own, *ASKED_IN_VAIN)]
        """What the paths of the registry begin with."""
        for route in self.routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        place = self._root
        for segment in _segments(route.path):
            if segment.startswith("{"):
                place.parameter = place.parameter or _Place()
                place = place.parameter
            else:
                place = place.literals.setdefault(segment, _Place())
        assert route.method not in place.routes, f"{route.method} {route.path} stands twice in the table"
        place.routes[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """The route and its parameters. `HEAD` is found where `GET` is."""
        values: list[str] = []
        place = self._place([decoded(each) for each in _segments(path)], values)
        if place is None:
            raise NotFound(f"there is nothing at {path}; /docs lists every path")
        route = _route_for(method, place.routes)
        if route is None:
            allowed = ", ".join(allowed_methods(place.routes))
            raise MethodNotAllowed(f"{path} takes {allowed}, not {method}", allow=allowed)
        names = [each[1:-1] for each in _segments(route.path) if each.startswith("{")]
        return route, dict(zip(names, values, strict=True))

    def is_of_registry(self, path: str) -> bool:
        """Whether a client of the registry asked, also where it asked for nothing that there is."""
        return path == "/" or path.split("/")[1:2] in self._heads

    def _place(self, segments: list[str], values: list[str]) -> _Place | None:
        first, rest = (segments[0], segments[1:]) if segments else ("", [])
        if first == VERSION:
            found = _find(self._root, rest, 0, values)
            return None if found is None or found.of_registry else found
        found = _find(self._root, segments, 0, values)
        if found is None and first == REGISTRY_ROOT:
            found = _find(self._root, rest if rest != [""] else [], 0, values)
            return found if found is not None and found.of_registry else None
        return found


def _route_for(method: str, routes: Mapping[str, Route]) -> Route | None:
    if method == OPTIONS:
        return _options_of(routes)
    if method == "HEAD":
        route = routes.get("GET")
        return route if route is not None and route.is_safe else None
    return routes.get(method)


def allowed_methods(routes: Mapping[str, Route]) -> list[str]:
    return sorted({*routes, OPTIONS, *(["HEAD"] if _route_for("HEAD", routes) else [])})


def _options_of(routes: Mapping[str, Route]) -> Route:
    """Says which methods there are, and nothing that would let a page of another site use them."""
    first = next(iter(routes.values()))
    headers = {"allow": ", ".join(allowed_methods(routes))}

    async def answer(_: HttpCall[Any, Any]) -> Response:
        return Response(204, headers=headers)

    return Route(OPTIONS, first.path, answer, "", first.group, is_open=first.is_open, of_registry=first.of_registry)


def _find(place: _Place, segments: list[str], at: int, values: list[str]) -> _Place | None:
    """A literal goes before a parameter; where it leads nowhere, the parameter is tried."""
    if at == len(segments):
        return place if place.routes else None
    segment = segments[at]
    literal = place.literals.get(segment)
    if literal is not None and (found := _find(literal, segments, at + 1, values)) is not None:
        return found
    if place.parameter is None or not segment:
        return None
    values.append(segment)
    found = _find(place.parameter, segments, at + 1, values)
    if found is None:
        values.pop()
    return found


def _segments(path: str) -> list[str]:
    """The root has none."""
    return path.split("/")[1:] if path != "/" else []


def decoded(text: str, *, plus_is_space: bool = False) -> str:
    """The text of percent-encoded UTF-8; anything else is refused, not guessed."""
    if plus_is_space:
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    for piece in text.split("%")[1:]:
        if len(piece) < 2 or not all(each in "0123456789abcdefABCDEF" for each in piece[:2]):
            raise InvalidRequest(f"{text!r} has a % that begins no byte; write %25 for a percent sign")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{text!r} is not UTF-8 behind its percent signs") from error


def parameters(query: str, lists: Collection[str] = ()) -> dict[str, Any]:
    """The parameters of a query, each at most once, except for those that are lists."""
    found: dict[str, Any] = {}
    if not query:
        return found
    pieces = query.split("&")
    if len(pieces) > PARAMETERS_MAX:
        raise InvalidRequest(f"a query has at most {PARAMETERS_MAX} parameters")
    for piece in pieces:
        name, _, value = piece.partition("=")
        name = decoded(name, plus_is_space=True)
        if name in lists:
            found.setdefault(name, []).append(decoded(value, plus_is_space=True))
            continue
        if name in found:
            raise InvalidRequest(f"the parameter {name!r} stands twice in the query")
        if not name and value:
            raise InvalidRequest(f"the query has {piece!r}, which names no parameter")
        if name:
            found[name] = decoded(value, plus_is_space=True)
    return found
