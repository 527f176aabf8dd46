"""The opening of a websocket: an HTTP request to upgrade, and its answer. wsproto knows the rules.

The other end may send bytes that make the parsers below raise any error. Whatever they raise, it ends this
connection and nothing else. Both functions return the bytes behind the handshake: the first bytes of frames.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, RejectConnection, RejectData, Request
from wsproto.utilities import RemoteProtocolError

from goqueue.errors import GoQueueError, WrongPort
from goqueue.net.wire.errors import ConnectionLost, HandshakeRefused

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

HANDSHAKE_TIMEOUT = 10
HEAD_SIZE_MAX = 64 * 1024
REFUSAL_SIZE_MAX = 1024
UPGRADE_REQUIRED = 426
WEBSOCKET_HEADER = b"goqueue-websocket"
"""With that status: the address that clients should have."""
NO_HANDSHAKE = "this is goqueue's port for websockets; for HTTP use its other one, 7711 unless it was told another"
END_OF_HEAD = b"\r\n\r\n"
STREAM_ERRORS = (trio.BrokenResourceError, trio.ClosedResourceError)


async def shake_hands_as_client(stream: trio.abc.Stream, host: str, path: str, headers: Headers) -> bytes:
    websocket = WSConnection(ConnectionType.CLIENT)

    async def shake_hands() -> bytes:
        await stream.send_all(websocket.send(Request(host=host, target=path, extra_headers=list(headers))))
        event, rest = await _first_event(websocket, stream)
        if isinstance(event, RejectConnection):
            websocket.receive_data(rest)
            raise _error_of(event, await _refused_with(websocket, stream, event))
        if not isinstance(event, AcceptConnection):
            raise HandshakeRefused("the other end does not speak websocket")
        return rest

    return await _in_time(stream, shake_hands)


async def shake_hands_as_server(stream: trio.abc.Stream, refusal_of: Callable[[Headers], str | None]) -> bytes:
    """`refusal_of` gets the headers and returns the reason for a refusal, which is answered with 403."""
    websocket = WSConnection(ConnectionType.SERVER)

    async def shake_hands() -> bytes:
        event, rest = await _first_event(websocket, stream)
        if not isinstance(event, Request):
            raise HandshakeRefused("the other end does not ask for a websocket")
        refusal = refusal_of([(b"host", event.host.encode("utf-8")), *event.extra_headers])
        if refusal is not None:
            await stream.send_all(_refused(websocket, RejectConnection(status_code=403), refusal))
            raise HandshakeRefused(refusal)
        await stream.send_all(websocket.send(AcceptConnection()))
        return rest

    return await _in_time(stream, shake_hands)


async def _in_time(stream: trio.abc.Stream, shake_hands: Callable[[], Awaitable[bytes]]) -> bytes:
    try:
        with trio.move_on_after(HANDSHAKE_TIMEOUT):
            return await shake_hands()
        raise ConnectionLost("the other end was silent too long")
    except GoQueueError:
        await trio.aclose_forcefully(stream)
        raise
    except Exception as error:
        await trio.aclose_forcefully(stream)
        if isinstance(error, STREAM_ERRORS):
            raise ConnectionLost("the connection ended before it was open") from None
        raise HandshakeRefused(f"the other end does not speak websocket: {error}") from None
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise


async def _first_event(websocket: WSConnection, stream: trio.abc.Stream) -> tuple[Event, bytes]:
    """The event of the head, and the bytes behind it: wsproto must not read frames."""
    received = b""
    while END_OF_HEAD not in received and len(received) <= HEAD_SIZE_MAX:
        received += await _receive(stream)
    head, end, rest = received.partition(END_OF_HEAD)
    try:
        websocket.receive_data(head + end)
    except RemoteProtocolError as error:
        if isinstance(error.event_hint, RejectConnection):
            await stream.send_all(_refused(websocket, error.event_hint, f"{NO_HANDSHAKE} ({error})"))
        raise
    for event in websocket.events():
        return event, rest
    raise HandshakeRefused("the other end does not speak websocket")


async def _receive(stream: trio.abc.Stream) -> bytes:
    data = bytes(await stream.receive_some(HEAD_SIZE_MAX))
    if not data:
        raise ConnectionLost("the connection ended before it was open")
    return data


def _refused(websocket: WSConnection, rejection: RejectConnection, reason: str) -> bytes:
    """With the reason as its body: it may be read by a person who tries a browser."""
    body = f"{reason}\n".encode()
    own = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    headers = [*rejection.headers, *own]
    head = websocket.send(RejectConnection(status_code=rejection.status_code, headers=headers, has_body=True))
    return head + websocket.send(RejectData(data=body, body_finished=True))


def _error_of(rejection: RejectConnection, words: str) -> GoQueueError:
    address = dict(rejection.headers).get(WEBSOCKET_HEADER)
    if rejection.status_code == UPGRADE_REQUIRED and address is not None:
        right = address.decode("ascii", "replace")
        return WrongPort(
            f"this is the HTTP port; the websocket port is {right}"[:REFUSAL_SIZE_MAX], websocket=right
        )
    said = words or "it speaks HTTP, but takes no websockets at this address"
    return HandshakeRefused(f"the other end refused with status {rejection.status_code}: {said}")


async def _refused_with(websocket: WSConnection, stream: trio.abc.Stream, rejection: RejectConnection) -> str:
    said = b""
    is_finished = not rejection.has_body
    while not is_finished and len(said) < REFUSAL_SIZE_MAX:
        for event in websocket.events():
            said += event.data if isinstance(event, RejectData) else b""
            is_finished = not isinstance(event, RejectData) or event.body_finished
        if not is_finished:
            websocket.receive_data(await _receive(stream))
    return said[:REFUSAL_SIZE_MAX].decode("utf-8", "replace").strip()
