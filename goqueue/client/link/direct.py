"""A connection that one thread drives by itself, without an event loop: a request, and its answer.

It is opened in Trio's thread, as every connection, and then given away: session and frames know nothing of sockets
and of tasks. Whatever is unusual ends it with `ConnectionLost`, and whoever asked finds another way.
"""

import trio

from goqueue.client.link.link import greet
from goqueue.environment import Network
from goqueue.errors import GoQueueError
from goqueue.net.session.client import ClientSession
from goqueue.net.session.events import AnswerReceived, RequestFailed
from goqueue.net.transport.frames import BINARY, Breach, FrameReader, encode_frame
from goqueue.net.transport.websocket import connect_websocket
from goqueue.net.wire.errors import ConnectionLost
from goqueue.net.wire.kinds import Answer, Request
from goqueue.tcp import TcpStream, ThreadSocket

ANSWER_SECONDS_MAX = 1.0
"""Limit of the time that a thread waits for bytes of the broker; then it leaves the request to Trio's thread."""


class DirectConnection:
    def __init__(self, session: ClientSession, frames: FrameReader, socket: ThreadSocket) -> None:
        self._session, self._frames, self._socket = session, frames, socket
        self.uses = 0

    def ask(self, request: Request) -> Answer | GoQueueError:
        """The answer, or what the broker refused with. `ConnectionLost`: it may have been handled or not."""
        self.uses += 1
        correlation = self._session.request(request)
        try:
            self._send()
            while True:
                event = self._session.receive(self._receive())
                if isinstance(event, AnswerReceived) and event.correlation == correlation:
                    return event.answer
                if isinstance(event, RequestFailed) and event.correlation == correlation:
                    return event.error
                if event is not None:
                    raise ConnectionLost("the broker said something else than the answer")
        except (OSError, Breach) as error:
            raise ConnectionLost(f"the connection ended before the answer came: {error}") from None

    def _send(self) -> None:
        while (frame := self._session.next_frame()) is not None:
            self._socket.send(encode_frame(BINARY, frame, masked=True))

    def _receive(self) -> bytes:
        while (frame := self._frames.next()) is None:
            data = self._socket.receive()
            if not data:
                raise ConnectionLost("the connection ended")
            self._frames.feed(data)
        if frame.opcode != BINARY:
            raise ConnectionLost("the broker closes the connection, or asks for a sign of life")
        return frame.payload

    def end(self) -> None:
        """From any thread, also while another one waits for an answer."""
        self._socket.end()

    def close(self) -> None:
        """Nobody may be using it."""
        self._socket.close()


async def open_direct(network: Network, host: str, port: int, name: str) -> DirectConnection | None:
    """None on a network that is not the machine's own."""
    stream = await network.connect(host, port)
    try:
        if isinstance(stream, TcpStream) and not stream.connects_itself:
            transport = await connect_websocket(stream, f"{host}:{port}")
            session = ClientSession()
            await greet(session, transport, name)
            _, frames = transport.detach()
            return DirectConnection(session, frames, stream.detach(ANSWER_SECONDS_MAX))
        return None
    finally:
        await trio.aclose_forcefully(stream)
