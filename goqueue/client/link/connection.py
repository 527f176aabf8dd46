"""The one connection of a client: reconnects, and repeats calls.

When the connection is lost the client reconnects, 50 ms after the loss, then with twice the pause each time, up to
2 s; a call that was under way is sent again. A call that is not answered within 30 s fails with `Unavailable`.
"""

import logging
from collections.abc import Awaitable, Callable

import trio

from goqueue.client.link.caller import AnswerT, Sending
from goqueue.client.link.direct import DirectConnection, open_direct
from goqueue.client.link.link import Link
from goqueue.environment import Network
from goqueue.errors import Closed, GoQueueError, Unavailable, WrongPort
from goqueue.net.transport.keepalive import OF_CLIENTS, kept_alive
from goqueue.net.transport.websocket import connect_websocket
from goqueue.net.wire.errors import ConnectionLost
from goqueue.net.wire.failures import PATIENCE_SECONDS, final
from goqueue.net.wire.kinds import Answer, Request
from goqueue.tcp import TcpStream

logger = logging.getLogger("goqueue.client")

RECONNECT_SECONDS_MIN, RECONNECT_SECONDS_MAX = 0.05, 2.0
CALL_SECONDS_MAX = PATIENCE_SECONDS


class Connected:
    def __init__(self, host: str, port: int, name: str, network: Network) -> None:
        self._host, self._port = host, port
        self.name = name
        self._network = network
        self.link: Link | None = None
        """The connection, while there is one."""
        self.why_away = "the broker has not answered yet"
        self.last_failure = ""
        """The last failure to connect; empty if there was none."""
        """Why the last attempt to connect failed, while there is no connection."""
        self._connected = trio.Event()
        self._wrong_port: WrongPort | None = None
        self._is_closed = False
        self.patience_seconds = PATIENCE_SECONDS
        self.senders: dict[Sending, None] = {}
        """The senders to notify when there is a connection again."""
        self._tasks: trio.Nursery | None = None

    async def call(self, request: Request, kind: type[AnswerT]) -> AnswerT:
        """Send a request, again when the connection is lost or the broker answers with a retryable error."""
        self._check_open()
        deadline = trio.current_time() + self.patience_seconds
        pause = RECONNECT_SECONDS_MIN
        while True:
            try:
                answer = await self._ask(request, deadline)
            except GoQueueError as error:
                if not (error.retryable and trio.current_time() + pause < deadline):
                    raise final(error, self.patience_seconds) from error
                await trio.sleep(pause)
                pause = min(2 * pause, RECONNECT_SECONDS_MAX)
                self._check_open()
            else:
                assert isinstance(answer, kind)
                return answer

    async def _ask(self, request: Request, deadline: float) -> Answer:
        with trio.CancelScope(deadline=deadline):
            while self.link is None:
                self._check_port()
                await self._connected.wait()
                self._check_open()
            return await self.link.request(request)
        raise Unavailable(
            f"{self._address} did not answer within {self.patience_seconds:g} s ({self.why_away}); "
            "is the broker running?"
        )

    def spawn(self, task: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Run a background task, as long as the client is open."""
        assert self._tasks is not None, "a client has tasks from its opening on"
        self._tasks.start_soon(task, *arguments)

    async def open_direct(self) -> DirectConnection | None:
        """Another connection, for a thread that drives it by itself. None where there is none to be had."""
        return await open_direct(self._network, self._host, self._port, self.name)

    def open(self, tasks: trio.Nursery) -> None:
        self._tasks = tasks
        self.spawn(self._keep_connected)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the client is closed")

    @property
    def _address(self) -> str:
        return f"ws://{self._host}:{self._port}"

    async def _keep_connected(self) -> None:
        pause = RECONNECT_SECONDS_MIN
        while True:
            try:
                await self._connect_once()
                pause = RECONNECT_SECONDS_MIN
                self.why_away = f"the connection to {self._address} was lost"
                logger.warning("the connection to %s was lost; connecting again", self._address)
            except (OSError, GoQueueError) as error:
                if isinstance(error, WrongPort):
                    self._note_wrong_port(error)
                self.last_failure = str(error)
                self.why_away = f"{self._address} cannot be reached: {error}"
                logger.info("%s cannot be reached (%s); trying again in %g s", self._address, error, pause)
            await trio.sleep(pause)
            pause = min(2 * pause, RECONNECT_SECONDS_MAX)

    async def _connect_once(self) -> None:
        """Connect and serve until the connection is lost."""
        stream = await self._network.connect(self._host, self._port)
        try:
            _refuse_itself(stream)
            await self._serve(stream)
        finally:
            # The task that would read the broker's close is cancelled, too, so it is not awaited.
            await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.abc.HalfCloseableStream) -> None:
        transport = await connect_websocket(stream, f"{self._host}:{self._port}")
        link = Link(transport)
        try:
            await link.greet(self.name)
            self._adopt(link)
            async with kept_alive(transport, OF_CLIENTS):
                await link.run(self._forget_link)
        finally:
            self._forget_link()

    def _note_wrong_port(self, error: WrongPort) -> None:
        """Calls fail with it at once, until an attempt succeeds."""
        self._wrong_port = error
        self._connected.set()
        self._connected = trio.Event()

    def _check_port(self) -> None:
        error = self._wrong_port
        if error is not None:
            raise WrongPort(f"{self._address}: {error.message}", **error.details)

    def _adopt(self, link: Link) -> None:
        self.link, self._wrong_port = link, None
        self._connected.set()
        for sender in self.senders:
            sender.pump_all()

    def _forget_link(self) -> None:
        if self.link is not None:
            self.link = None
            self._connected = trio.Event()

    def close(self) -> None:
        self._is_closed = True
        self.link = None
        self._connected.set()


def _refuse_itself(stream: trio.abc.Stream) -> None:
    if isinstance(stream, TcpStream) and stream.connects_itself:
        raise ConnectionLost("the socket had connected to itself")
