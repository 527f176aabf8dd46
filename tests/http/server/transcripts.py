"""What a client sends, and what the machine makes of it: one line of text for each event.

The bytes are written as Python has them, without quotes; an event is `METHOD target length [flags]`, `body text`,
`end`, `over`, or `refused STATUS words of the message`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from goqueue.http.server.errors import HttpError
from goqueue.http.server.machine import BODY_END, ENDED, NEEDS_DATA, BodyPart, Head, HttpMachine

HOST = b"host: a\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST
POST = b"POST / HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
LINES = "400 lines end with CR and LF"
LENGTHS = "400 a request has one Content-Length"
SIZE = "400 a chunk begins with its size"
TRAILERS = "400 what follows the last chunk"


class Transcript(NamedTuple):
    name: str
    sent: bytes
    events: Sequence[str]


GOOD = (
    Transcript("one request", GET + b"\r\n", ["GET / 0", "end", "over"]),
    Transcript("a body", POST + b"Content-Length: 5\r\n\r\nhello", ["POST / 5", "body hello", "end", "over"]),
    Transcript("a length of zero", POST + b"content-length: 0\r\n\r\n", ["POST / 0", "end", "over"]),
    Transcript(
        "pipelined",
        GET + b"\r\n" + POST + b"content-length: 2\r\n\r\nhi" + GET + b"\r\n",
        ["GET / 0", "end", "POST / 2", "body hi", "end", "GET / 0", "end", "over"],
    ),
    Transcript("lines between two", b"\r\n\r\n" + GET + b"\r\n\r\n\r\n", ["GET / 0", "end", "over"]),
    Transcript("only lines", b"\r\n\r\n", ["over"]),
    Transcript("nothing", b"", ["over"]),
    Transcript(
        "chunks",
        CHUNKED + b"5\r\nhello\r\n001\r\n!\r\nA\r\n0123456789\r\n0\r\n\r\n",
        ["POST / chunks", "body hello!0123456789", "end", "over"],
    ),
    Transcript("no chunk at all", CHUNKED + b"0\r\n\r\n", ["POST / chunks", "end", "over"]),
    Transcript(
        "a coding in capitals",
        POST + b"Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
        ["POST / chunks", "end", "over"],
    ),
    Transcript(
        "chunk extensions",
        CHUNKED + b'2;a=b;c="d e"\r\nhi\r\n0 ; x\r\n\r\n',
        ["POST / chunks", "body hi", "end", "over"],
    ),
    Transcript(
        "trailers",
        CHUNKED + b"2\r\nhi\r\n0\r\nx-sum: 1\r\ncontent-length: 7\r\n\r\n" + GET + b"\r\n",
        ["POST / chunks", "body hi", "end", "GET / 0", "end", "over"],
    ),
    Transcript(
        "a body that looks like a request",
        POST + b"content-length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        ["POST / 18", "body GET / HTTP/1.1\r\n\r\n", "end", "over"],
    ),
    Transcript(
        "leave to send",
        POST + b"Expect: 100-Continue\r\ncontent-length: 2\r\n\r\nhi",
        ["POST / 2 expects", "body hi", "end", "over"],
    ),
    Transcript("the last one", GET + b"Connection: foo, Close\r\n\r\n", ["GET / 0 last", "end", "over"]),
    Transcript("HTTP/1.0", b"GET / HTTP/1.0\r\n\r\n", ["GET / 0 last old", "end", "over"]),
    Transcript(
        "HTTP/1.0 that stays", b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n", ["GET / 0 old", "end", "over"]
    ),
    Transcript(
        "HTTP/1.0 expects nothing",
        b"POST / HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\nx",
        ["POST / 1 last old", "body x", "end", "over"],
    ),
    Transcript("HEAD", b"HEAD /a%2Fb?c HTTP/1.1\r\nhost: a\r\n\r\n", ["HEAD /a%2Fb?c 0", "end", "over"]),
    Transcript("a method of its own", b"BREW /pot HTTP/1.1\r\nhost: a\r\n\r\n", ["BREW /pot 0", "end", "over"]),
    Transcript(
        "a whole address", b"GET http://a/b HTTP/1.1\r\nhost: a\r\n\r\n", ["GET http://a/b 0", "end", "over"]
    ),
    Transcript(
        "CONNECT switches nothing",
        b"CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n" + GET + b"\r\n",
        ["CONNECT a:80 0", "end", "GET / 0", "end", "over"],
    ),
    Transcript(
        "an upgrade switches nothing",
        GET + b"upgrade: h2c\r\nconnection: upgrade\r\n\r\n" + GET + b"\r\n",
        ["GET / 0", "end", "GET / 0", "end", "over"],
    ),
    Transcript("bytes of Latin-1", GET + b"x: gr\xfcn\r\n\r\n", ["GET / 0", "end", "over"]),
)
"""Every one of them ends with the end of the client's bytes."""

SMUGGLED = (
    Transcript(
        "two lengths", POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello", [f"refused {LENGTHS}"]
    ),
    Transcript(
        "the same length twice",
        POST + b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello",
        [f"refused {LENGTHS}"],
    ),
    Transcript("a list of lengths", POST + b"content-length: 5, 5\r\n\r\nhello", [f"refused {LENGTHS}"]),
    Transcript(
        "length and chunks",
        POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        [f"refused {LENGTHS}"],
    ),
    Transcript(
        "chunks and length",
        POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        [f"refused {LENGTHS}"],
    ),
    Transcript(
        "length and another coding",
        POST + b"content-length: 5\r\ntransfer-encoding: identity\r\n\r\nhello",
        [f"refused {LENGTHS}"],
    ),
    *(
        Transcript(
            f"the length {text!r}",
            POST + b"content-length:" + text + b"\r\n\r\nhello",
            [f"refused {LENGTHS}"],
        )
        for text in (
            b" +5",
            b" -5",
            b" 0x5",
            b" 5 5",
            b" 5;",
            b"",
            b" 5e1",
            b" 1_0",
            b" \xb2",
            b" 9999999999999999999",
        )
    ),
    *(
        Transcript(
            f"the coding {text!r}",
            POST + b"transfer-encoding:" + text + b"\r\n\r\n0\r\n\r\n",
            ["refused 400 this is not HTTP/1.1"],
        )
        for text in (
            b" identity",
            b" gzip, chunked",
            b" identity, chunked",
            b" chunked, identity",
            b" chunked,",
            b" xchunked",
            b"",
            b' "chunked"',
        )
    ),
    Transcript(
        "the coding with a tab of another kind",
        POST + b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        ["refused 400 this is not HTTP/1.1"],
    ),
    Transcript(
        "chunked twice",
        POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ["refused 400 this is not HTTP/1.1"],
    ),
    Transcript(
        "another coding before",
        POST + b"transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ["refused 400 this is not HTTP/1.1"],
    ),
    Transcript(
        "chunks in HTTP/1.0",
        b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ["refused 400 HTTP/1.0 knows no chunks"],
    ),
    Transcript("bare LF", b"GET / HTTP/1.1\nhost: a\n\n", [f"refused {LINES}"]),
    Transcript("bare LF within", GET + b"x: y\nz: 1\r\n\r\n", [f"refused {LINES}"]),
    Transcript("bare LF at the end", GET + b"\n", [f"refused {LINES}"]),
    Transcript("bare CR", GET + b"x: y\rz: 1\r\n\r\n", [f"refused {LINES}"]),
    Transcript("CR CR LF", GET + b"x: y\r\r\n\r\n", [f"refused {LINES}"]),
    Transcript("CR first", b"\rGET / HTTP/1.1\r\n\r\n", ["refused 400 this is not HTTP/1.1"]),
    Transcript("a folded line", GET + b"x: y\r\n z\r\n\r\n", ["refused 400 a header stands on one line"]),
    Transcript(
        "a folded length", POST + b"content-length:\r\n 5\r\n\r\nhello", ["refused 400 a header stands on one line"]
    ),
    Transcript(
        "a space before the colon",
        GET + b"x : y\r\n\r\n",
        ["refused 400 this is not HTTP/1.1: illegal header line"],
    ),
    Transcript(
        "a space before the colon of a length", POST + b"content-length : 5\r\n\r\nhello", [f"refused {LENGTHS}"]
    ),
    Transcript(
        "a space before the colon of a coding",
        POST + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        ["refused 400 this is not HTTP/1.1: illegal header line"],
    ),
    Transcript(
        "a space before the first header",
        b"GET / HTTP/1.1\r\n host: a\r\n\r\n",
        ["refused 400 a header stands on one line"],
    ),
    Transcript(
        "a header without a colon", GET + b"x\r\n\r\n", ["refused 400 this is not HTTP/1.1: illegal header line"]
    ),
    Transcript(
        "a header without a name", GET + b": y\r\n\r\n", ["refused 400 this is not HTTP/1.1: illegal header line"]
    ),
    Transcript("NUL in a value", GET + b"x: a\0b\r\n\r\n", ["refused 400 a head has no NUL in it"]),
    Transcript("NUL in a name", GET + b"x\0: a\r\n\r\n", ["refused 400 a head has no NUL in it"]),
    Transcript(
        "NUL in the target", b"GET /\0 HTTP/1.1\r\nhost: a\r\n\r\n", ["refused 400 a head has no NUL in it"]
    ),
    Transcript(
        "a space in the target",
        b"GET /a b HTTP/1.1\r\nhost: a\r\n\r\n",
        ["refused 400 this is not HTTP/1.1: illegal request line"],
    ),
    Transcript(
        "two hosts",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        ["refused 400 this is not HTTP/1.1: Found multiple Host"],
    ),
    Transcript("no host", b"GET / HTTP/1.1\r\n\r\n", ["refused 400 this is not HTTP/1.1: Missing mandatory Host"]),
    Transcript("no version", b"GET /\r\n\r\n", ["refused 400 this is not HTTP/1.1: illegal request line"]),
    Transcript("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ["refused 505 this server speaks HTTP/1.1"]),
    Transcript("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ["refused 400 this is not HTTP/1.1"]),
    *(
        Transcript(
            f"the chunk size {text!r}",
            CHUNKED + text + b"\r\nhello\r\n0\r\n\r\n",
            ["POST / chunks", f"refused {SIZE}"],
        )
        for text in (
            b"-5",
            b"+5",
            b"0x5",
            b" 5",
            b"5 ",
            b"5\r",
            b"",
            b"g",
            b"5;\0",
            b"5;a\rb",
            b"1" + bytes([48]) * 15,
        )
    ),
    Transcript(
        "a chunk's line ends with LF", CHUNKED + b"5\nhello\r\n0\r\n\r\n", ["POST / chunks", f"refused {SIZE}"]
    ),
    Transcript(
        "an extension ends with LF", CHUNKED + b"5;a\nhello\r\n0\r\n\r\n", ["POST / chunks", f"refused {SIZE}"]
    ),
    Transcript(
        "a chunk of another size",
        CHUNKED + b"4\r\nhello\r\n0\r\n\r\n",
        ["POST / chunks", "body hell", "refused 400 a chunk is longer"],
    ),
    Transcript(
        "a chunk ends with LF",
        CHUNKED + b"5\r\nhello\n0\r\n\r\n",
        ["POST / chunks", "body hello", "refused 400 a chunk is longer"],
    ),
    Transcript(
        "an extension without end",
        CHUNKED + b"5;" + b"a" * 300,
        ["POST / chunks", "refused 400 a line between chunks is too long"],
    ),
    Transcript("a trailer ends with LF", CHUNKED + b"0\r\na: b\n\r\n", ["POST / chunks", f"refused {TRAILERS}"]),
    Transcript(
        "the trailers end with LF",
        CHUNKED + b"0\r\na: b\r\n\nGET / HTTP/1.1\r\n\r\n",
        ["POST / chunks", f"refused {TRAILERS}"],
    ),
    Transcript(
        "a trailer that is none",
        CHUNKED + b"0\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        ["POST / chunks", f"refused {TRAILERS}"],
    ),
    Transcript("a folded trailer", CHUNKED + b"0\r\na: b\r\n c\r\n\r\n", ["POST / chunks", f"refused {TRAILERS}"]),
    Transcript(
        "trailers without end",
        CHUNKED + b"0\r\n" + b"a: b\r\n" * 700,
        ["POST / chunks", "refused 400 a line between chunks is too long"],
    ),
    Transcript(
        "a head without end",
        GET + b"x: " + b"y" * 16_384,
        ["refused 431 the head of a request has at most 16,384 bytes"],
    ),
    Transcript(
        "headers without end",
        GET + b"x: y\r\n" * 3_000,
        ["refused 431 the head of a request has at most 16,384 bytes"],
    ),
    Transcript("cut within a head", GET, ["refused 400 the connection ended within the head"]),
    Transcript(
        "cut within a body",
        POST + b"content-length: 5\r\n\r\nhe",
        ["POST / 5", "body he", "refused 400 the connection ended within the body"],
    ),
    Transcript(
        "cut within a chunk",
        CHUNKED + b"5\r\nhe",
        ["POST / chunks", "body he", "refused 400 the connection ended within the body"],
    ),
    Transcript(
        "cut within the trailers",
        CHUNKED + b"0\r\n",
        ["POST / chunks", "refused 400 the connection ended within the body"],
    ),
)
"""A proxy could read each of them in another way, or nobody could read it at all."""


def events_of(pieces: Sequence[bytes], *, is_over: bool = True) -> list[str]:
    """What the machine tells when the bytes come in these pieces; neighbouring parts of a body are one."""
    machine, told = HttpMachine(), list[str]()
    try:
        for piece in pieces:
            if piece:
                machine.receive(piece)
                _add(told, _events(machine))
        if is_over:
            machine.receive(b"")
            _add(told, _events(machine))
    except HttpError as error:
        told.append(f"refused {error.status} {error}")
    return told


def _add(told: list[str], events: Iterator[str]) -> None:
    for event in events:
        if event.startswith("body ") and told and told[-1].startswith("body "):
            told[-1] += event.removeprefix("body ")
        else:
            told.append(event)


def _events(machine: HttpMachine) -> Iterator[str]:
    while (event := machine.next_event()) is not NEEDS_DATA:
        if isinstance(event, Head):
            length = "chunks" if event.length is None else str(event.length)
            flags = {"last": event.is_last, "old": not event.knows_chunks, "expects": event.expects_continue}
            shown = [
                event.method,
                event.target.decode(),
                length,
                *(name for name, is_set in flags.items() if is_set),
            ]
            yield " ".join(shown)
        elif isinstance(event, BodyPart):
            yield f"body {event.data.decode()}"
        elif event is BODY_END:
            yield "end"
        elif event is ENDED:
            yield "over"
            return
