"""What the HTTP port answers while the broker starts: the process lives, and is not ready.

A start reads what no seal vouches for, which may take long after a power cut. An orchestrator that heard nothing
meanwhile would kill the broker, and the next start would begin anew.
"""

from itertools import count

import trio

from goqueue.core.health import NOT_READY, STARTING
from goqueue.errors import Unavailable
from goqueue.http.gateway import ANSWERS_BYTES_MAX, BODIES_BYTES_MAX, path_of
from goqueue.http.routes import ROUTES
from goqueue.http.routes.health import ALIVE
from goqueue.http.routing.refusals import refusal, registry_refusal
from goqueue.http.routing.table import RouteTable
from goqueue.http.server.budget import ByteBudget
from goqueue.http.server.connection import Budgets, HttpConnection
from goqueue.http.server.exchange import Exchange

ALIVE_PATHS = ("/healthz", "/v1/healthz")
TABLE = RouteTable(ROUTES)


class StartingGateway:
    """Answers one request on each connection: the next one finds the broker, if it is ready then."""

    def __init__(self) -> None:
        self._connections: set[HttpConnection] = set()
        self._numbers = count(1)
        self._budgets = Budgets(
            ByteBudget(BODIES_BYTES_MAX, "bodies of requests"), ByteBudget(ANSWERS_BYTES_MAX, "answers")
        )

    async def serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        connection = HttpConnection(stream, _answer, refusal, self._budgets, next(self._numbers))
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    def leave(self) -> None:
        """The broker is ready. Idle connections end; a request under way is answered."""
        for connection in list(self._connections):
            connection.leave()


async def _answer(exchange: Exchange) -> None:
    exchange.is_last = True
    path = path_of(exchange.head)
    if path in ALIVE_PATHS:
        await exchange.answer(ALIVE)
        return
    starting = Unavailable(NOT_READY[STARTING], status=STARTING)
    of_registry = TABLE.is_of_registry(path)
    await exchange.answer(registry_refusal(starting) if of_registry else refusal(exchange.request_id, starting))
