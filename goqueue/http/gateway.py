"""The gateway: each connection of an HTTP client has a session of the broker, which also serves websockets.

Whatever the broker refuses becomes an answer here, in one form. A handler that fails costs its request and its
connection, and never the broker.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import trio

from goqueue.actors.front.bounds import Bounds
from goqueue.actors.front.serving import SERVING
from goqueue.actors.front.session import BrokerSession
from goqueue.actors.node.broker import Broker
from goqueue.errors import GoQueueError
from goqueue.http.members.seats import HttpSeats
from goqueue.http.metrics.exposition import SERIES_MAX, Metrics
from goqueue.http.metrics.requests import HttpCounts
from goqueue.http.routes import ROUTES
from goqueue.http.routing.reading import (
    CURE,
    JSON_SIZE_MAX,
    SCHEMA_CURE,
    check_encoding,
    check_media_type,
    parse_json,
    read_model,
)
from goqueue.http.routing.refusals import refusal, registry_refusal
from goqueue.http.routing.route import HttpCall, NoFields, Route
from goqueue.http.routing.table import OPTIONS, RouteTable, parameters
from goqueue.http.routing.topics import TopicNames
from goqueue.http.server.budget import ByteBudget
from goqueue.http.server.connection import ENDINGS, Budgets, HttpConnection
from goqueue.http.server.errors import Bug, InvalidRequest, Overloaded, WrongServer
from goqueue.http.server.exchange import Exchange, Response, whole_answer
from goqueue.http.server.machine import Head, Headers
from goqueue.net.transport.origin import NOBODY_ELSE, Address, AllowedCallers, refusal_of
from goqueue.net.wire.errors import HandshakeRefused

BODIES_BYTES_MAX = ANSWERS_BYTES_MAX = 256 * 1024 * 1024
DRAIN_SECONDS_MAX = 10.0
CONNECTIONS_MAX = 1_000
"""The default of `http_connections_max`."""
NO_ROUTE = "none"
"""The name of the route in metrics, where there is none."""

logger = logging.getLogger("goqueue.http")


class Gateway:
    def __init__(
        self,
        broker: Broker,
        own: Callable[[], Sequence[Address]],
        allowed_callers: AllowedCallers = NOBODY_ELSE,
        bounds: Bounds | None = None,
        metrics_series_max: int = SERIES_MAX,
    ) -> None:
        """`own` has the broker's websocket and HTTP addresses."""
        self.broker = broker
        self.counts = HttpCounts()
        self.metrics = Metrics(broker, self.counts, metrics_series_max)
        self.topics = TopicNames()
        self.table = RouteTable(ROUTES)
        self.seats = HttpSeats(self.new_session)
        self.is_leaving = False
        self.reads = 0
        self._own = own
        self._allowed_callers = allowed_callers
        self._bounds = bounds or Bounds()
        self._budgets = Budgets(
            ByteBudget(BODIES_BYTES_MAX, "bodies of requests"), ByteBudget(ANSWERS_BYTES_MAX, "answers")
        )
        self._clients: dict[HttpConnection, _Client] = {}
        self._numbers = count(1)
        self._all_gone = trio.Event()

    def new_session(self, address: str | None) -> BrokerSession:
        return BrokerSession(self.broker, SERVING, self._bounds, address=address)

    async def serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        """One connection, to its end. Never raises for what the client does."""
        peer, called = getattr(stream, "peer", None), getattr(stream, "called", None)
        client = _Client(self, peer, called)
        connection = HttpConnection(stream, client.serve, refusal, self._budgets, next(self._numbers))
        self._clients[connection] = client
        try:
            await connection.run()
        finally:
            del self._clients[connection]
            client.session.close()
            if self.is_leaving and not self._clients:
                self._all_gone.set()

    def make_room(self) -> bool:
        """End the connection that has waited longest for a request, if one does: a client that is there now goes
        before one that may come back."""
        return any(connection.yield_place() for connection in self._clients)

    def farewell(self, reason: str) -> bytes:
        """What a connection hears for which there is no place."""
        return whole_answer(refusal(f"{next(self._numbers):x}-1", Overloaded(reason)))

    async def drain(self) -> None:
        """Idle connections end now, long polls are answered at once, streams end; others have their answer."""
        self.is_leaving = True
        for connection, client in list(self._clients.items()):
            connection.leave()
            client.session.send_away()
        self.seats.send_away()
        if self._clients:
            with trio.move_on_after(DRAIN_SECONDS_MAX):
                await self._all_gone.wait()

    def check_origin(self, headers: Headers, called: str | None) -> None:
        refused = refusal_of(headers, self._own(), self._allowed_callers, called)
        if refused is not None:
            raise HandshakeRefused(refused)

    def other_port(self) -> WrongServer:
        """For a client that has mixed up the two ports."""
        websocket, *_ = self._own()
        address = f"ws://{websocket.host}:{websocket.port}"
        return WrongServer(f"this is the HTTP port; the websocket port is {address}", websocket=address)


class _Client:
    """One connection: its session, and the way of each of its requests."""

    def __init__(self, gateway: Gateway, peer: str | None, called: str | None) -> None:
        self._gateway = gateway
        self._called = called
        self.session = gateway.new_session(peer)

    async def serve(self, exchange: Exchange) -> None:
        counts, began, route = self._gateway.counts, trio.current_time(), None
        counts.in_progress += 1
        try:
            route, values, query = self._find(exchange)
            response = await self._respond(route, exchange, values, query)
        except ENDINGS:
            raise  # the client is gone, which is no bug
        except GoQueueError as error:
            response = self._refusal(exchange, route, error)
        except Exception:
            logger.exception("request %s could not be served", exchange.request_id)
            exchange.is_last = True
            bug = Bug(f"the broker failed; its log says how, under {exchange.request_id}")
            response = self._refusal(exchange, route, bug)
        finally:
            counts.in_progress -= 1
        if exchange.status is not None:
            exchange.is_last |= response is not None  # it failed in the middle of its answer
        elif response is not None:
            await self._answer(exchange, route, response)
        path = NO_ROUTE if route is None else route.path
        counts.note(exchange.head.method, path, exchange.status or 499, trio.current_time() - began)

    async def _answer(self, exchange: Exchange, route: Route | None, response: Response) -> None:
        try:
            await exchange.answer(response)
        except Overloaded as error:
            await exchange.answer(self._refusal(exchange, route, error))

    def _refusal(self, exchange: Exchange, route: Route | None, error: GoQueueError) -> Response:
        if route is None:
            of_registry = self._gateway.table.is_of_registry(path_of(exchange.head))
        else:
            of_registry = route.of_registry
        return registry_refusal(error) if of_registry else refusal(exchange.request_id, error)

    def _find(self, exchange: Exchange) -> tuple[Route, Mapping[str, str], str]:
        """The route, the parameters of its path, and the query as it came."""
        head = exchange.head
        target, headers = _target(head)
        if any(value.lower() == b"websocket" for value in head.values(b"upgrade")):
            self._gateway.check_origin(headers, self._called)
            raise self._gateway.other_port()
        path, _, query = target.partition("?")
        try:
            route, values = self._gateway.table.find(head.method, path)
        except GoQueueError:
            self._gateway.check_origin(headers, self._called)  # a page of others learns nothing
            raise
        if not route.is_open:
            self._gateway.check_origin(headers, self._called)
        return route, values, query

    async def _respond(
        self, route: Route, exchange: Exchange, values: Mapping[str, str], raw_query: str
    ) -> Response | None:
        asked: Any = None
        query = parameters(raw_query, () if route.query is None else route.query.lists)
        if route.query is not None:
            asked = read_model(route.query, query, of_query=True)
        elif query and route.method != OPTIONS:
            raise InvalidRequest(f"{route.method} {route.path} has no parameter {next(iter(query))!r}")
        check_encoding(exchange.head)
        if route.method == "POST":
            check_media_type(exchange.head, route.takes)
        body: Any = None
        if route.body is not None:
            data = await exchange.body(JSON_SIZE_MAX)
            cure = SCHEMA_CURE if route.of_registry else CURE
            body = read_model(
                route.body, parse_json(data if data or route.body is not NoFields else b"{}", cure=cure)
            )
        ask = partial(self.session.call, request_id=exchange.request_id)
        return await route.handler(HttpCall(exchange, values, asked, body, ask, self._gateway))


def _target(head: Head) -> tuple[str, Headers]:
    """Path and query, and the headers. A whole address is what one would send to a proxy, and is understood as
    well; its host is the one that counts then."""
    text = head.target.decode("ascii")
    if text.startswith(("http://", "https://")):
        _, _, rest = text.partition("://")
        host = re.split("[/?]", rest, maxsplit=1)[0]
        path, others = rest[len(host) :], [each for each in head.headers if each[0] != b"host"]
        return path if path.startswith("/") else f"/{path}", [*others, (b"host", host.encode())]
    if not text.startswith("/"):
        raise InvalidRequest(f"the target {text!r} is no path; it begins with /")
    return text, head.headers


def path_of(head: Head) -> str:
    """The raw path, also of a target that is refused."""
    try:
        return _target(head)[0].partition("?")[0]
    except InvalidRequest:
        return ""
