"""A client of a connection over memory, without anything that ours do for their users."""

from goqueue.actors.front.connection import Connection
from goqueue.net.session.client import ClientSession
from goqueue.net.session.events import AnswerReceived, RequestFailed, Welcomed
from goqueue.net.transport.transport import MemoryTransport
from goqueue.net.wire import messages as wire
from goqueue.net.wire.kinds import Request


class BareClient:
    """Asks one thing at a time, or sends several and takes what comes."""

    def __init__(self, transport: MemoryTransport, connection: Connection) -> None:
        self.transport = transport
        self.connection = connection
        self.session = ClientSession()

    async def greet(self) -> Welcomed:
        self.session.hello(wire.Hello(1, (), "test"))
        await self.flush()
        event = await self.next_event()
        assert isinstance(event, Welcomed)
        return event

    async def flush(self) -> None:
        while (frame := self.session.next_frame()) is not None:
            await self.transport.send(frame)

    async def next_event(self) -> object:
        while True:
            frame = await self.transport.receive()
            assert frame is not None, "the connection was closed"
            event = self.session.receive(frame)
            if event is not None:
                return event

    async def ask(self, request: Request) -> object:
        self.session.request(request)
        await self.flush()
        event = await self.next_event()
        if isinstance(event, RequestFailed):
            raise event.error
        assert isinstance(event, AnswerReceived)
        return event.answer

    async def post(self, request: Request) -> int:
        """Send it, and take the answer later."""
        correlation = self.session.request(request)
        await self.flush()
        return correlation

    async def outcome(self) -> tuple[int, object]:
        """The next that comes: whose it is, and the answer or the error."""
        event = await self.next_event()
        if isinstance(event, RequestFailed):
            return event.correlation, event.error
        assert isinstance(event, AnswerReceived)
        return event.correlation, event.answer
