"""A route, and what its handler is given.

The table of routes is one truth for the router, the OpenAPI document, the reference page and its tests. So a route
says everything about itself: its models, the codes with which it may fail, and the requests of the wire that it
makes.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from goqueue.core.names import NAME_LENGTH_MAX
from goqueue.http.server.exchange import JSON, Exchange, Response
from goqueue.net.wire.kinds import Answer, Request

NDJSON, OCTETS, EVENTS, TEXT = "application/x-ndjson", "application/octet-stream", "text/event-stream", "text/plain"
REGISTRY = "application/vnd.schemaregistry.v1+json"
JSON_KINDS = (JSON, REGISTRY)

QueryT = TypeVar("QueryT")
BodyT = TypeVar("BodyT")

NAME_SHAPE: dict[str, Any] = {
    "pattern": r"^(?!__)(?!\.{1,2}$)[A-Za-z0-9._-]+$",
    "minLength": 1,
    "maxLength": NAME_LENGTH_MAX,
}
Name = Annotated[str, Field(json_schema_extra=NAME_SHAPE)]
"""The document says which names there may be; whoever is asked checks them."""


class Model(BaseModel):
    """The fields of a query, a body or an answer. A field that is not known is refused, with its name."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
    lists: ClassVar[tuple[str, ...]] = ()
    """Parameters of a query that may be given more than once."""


class NoFields(Model):
    """The body of a request that says everything in its path. It may be left out."""


class Body(Model):
    """A JSON body that is described, but read by its handler."""

    media_type: ClassVar[str] = JSON


@dataclass(slots=True)
class HttpCall(Generic[QueryT, BodyT]):
    """One request, with its path, query and body read."""

    exchange: Exchange
    path: Mapping[str, str]
    query: QueryT
    body: BodyT
    ask: Callable[[Request], Awaitable[Answer]]
    """One request of the wire, and its answer or error. Which node answers is not known here."""
    gateway: Any
    """What all requests share."""


@dataclass(frozen=True, slots=True)
class RouteLink:
    """What the answer of one route is for another one."""

    source: str
    """Method and path."""
    target: str
    parameters: Mapping[str, Any]
    """By name: a value, or an expression of OpenAPI that picks one from the answer."""
    body: Any = None


Handler: TypeAlias = Callable[[HttpCall[Any, Any]], Awaitable[Response | None]]
"""None: it has answered by itself, in pieces."""


@dataclass(frozen=True, eq=False, slots=True)
class Route:
    method: str
    path: str
    """With its parameters in braces: `/topics/{topic}`."""
    handler: Handler
    summary: str
    group: str
    """The heading under which the reference has it."""
    query: type[Model] | None = None
    body: type[Model] | None = None
    """What the JSON body has; None: there is none, or the handler reads it by itself."""
    takes: tuple[str, ...] = (JSON,)
    """The media types of the body, if the method has one."""
    answer: type[BaseModel] | None = None
    gives: tuple[str, ...] = (JSON,)
    status: int = 200
    also: Mapping[int, str] = field(default_factory=dict)
    """Other statuses of success, and what they say."""
    errors: tuple[str, ...] = ()
    """Codes beside those that every route may answer with."""
    asks: tuple[type[Any], ...] = ()
    """The requests of the wire that it makes."""
    example: str | None = None
    """The arguments of a curl command; `$URL` is the broker's address."""
    documented: tuple[type["Body"], ...] = ()
    """Bodies that the handler reads by itself, for the reference."""
    is_safe: bool = True
    """`HEAD` may be asked where `GET` is. False: that would take something, and nobody would get it."""
    is_open: bool = False
    """Asks for neither Host nor Origin: for probes, which call by whatever address they have."""
    of_registry: bool = False
    """As Confluent's schema registry has it: its form of errors, no `/v1` before it, and the same again beneath
    `/schemas`."""
