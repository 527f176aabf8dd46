"""Those who open a connection and mean harm, from the first byte of TCP up to frames that only look right.

Each takes a stream of its own and a generator, and goes on until it is thrown out or has nothing more to say.
Floods pause now and then, so that they also run on a network in memory, where no time passes while they write.
"""

import struct
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeAlias

import trio

from goqueue.core.ledger.settlements import Action
from goqueue.net.wire.codec import encode
from goqueue.net.wire.groups import DeliveryRun, ReceivePartition, Settle
from goqueue.net.wire.messages import Fetch, FetchPartition, Hello, Stats
from goqueue.types import Scalar
from tests.hostile.frames import frames_of
from tests.net import bodies

Attack: TypeAlias = Callable[[trio.abc.HalfCloseableStream, Random], Awaitable[None]]

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
CONTINUATION, TEXT, BINARY, CLOSE, PING = 0x0, 0x1, 0x2, 0x8, 0x9
FIN, COMPRESSED, MASKED = 0x80, 0x40, 0x80
FLOOD_ROUNDS, FLOOD_PAUSE = 6, 0.01
FLOOD_BYTES = 60_000
"""Of each round."""
STRANGE_SETTINGS: tuple[dict[str, Scalar], ...] = (
    {},
    {"mode": "nonsense"},
    {"max_deliveries": -1},
    {"shared": True},
)


def websocket_frame(opcode: int, payload: bytes = b"", *, first: int = FIN, mask: int = MASKED) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes([first | opcode, mask | size])
    elif size < 65_536:
        head = bytes([first | opcode, mask | 126]) + struct.pack(">H", size)
    else:
        head = bytes([first | opcode, mask | 127]) + struct.pack(">Q", size)
    return head + (bytes(4) if mask else b"") + payload


def binary(frame: bytes) -> bytes:
    return websocket_frame(BINARY, frame)


HELLO = binary(encode(Hello(1, (), "attacker")))


async def shake_hands(stream: trio.abc.HalfCloseableStream) -> None:
    await stream.send_all(UPGRADE)
    await stream.receive_some(4_096)


async def greet(stream: trio.abc.HalfCloseableStream) -> None:
    await shake_hands(stream)
    await stream.send_all(HELLO)
    await stream.receive_some(4_096)


async def until_thrown_out(stream: trio.abc.HalfCloseableStream) -> None:
    while await stream.receive_some(65_536):
        pass


async def flood(stream: trio.abc.HalfCloseableStream, piece: bytes) -> None:
    """Say it again and again, and read nothing."""
    for _ in range(FLOOD_ROUNDS):
        await stream.send_all(piece * (FLOOD_BYTES // len(piece)))
        await trio.sleep(FLOOD_PAUSE)


# Before the websocket is open.


async def noise(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await stream.send_all(random.randbytes(random.choice((1, 100, 50_000))))
    await until_thrown_out(stream)


async def silence(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await until_thrown_out(stream)


async def gone_at_once(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await trio.lowlevel.checkpoint()


async def half_a_handshake(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await stream.send_all(UPGRADE[: random.randrange(len(UPGRADE))])
    await until_thrown_out(stream)


async def a_byte_each_second(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    for byte in UPGRADE:
        await stream.send_all(bytes([byte]))
        await trio.sleep(1)


async def endless_header(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await stream.send_all(b"GET / HTTP/1.1\r\n")
    await flood(stream, b"x-more: and more\r\n")


# Websocket frames.


async def text(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await shake_hands(stream)
    await stream.send_all(websocket_frame(TEXT, b"hello"))
    await until_thrown_out(stream)


async def unmasked(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await shake_hands(stream)
    await stream.send_all(websocket_frame(BINARY, b"hello", mask=0))
    await until_thrown_out(stream)


async def compressed(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await greet(stream)
    await stream.send_all(websocket_frame(BINARY, b"hello", first=FIN | COMPRESSED))
    await until_thrown_out(stream)


async def oversized_control(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await greet(stream)
    await stream.send_all(websocket_frame(PING, bytes(126)))
    await until_thrown_out(stream)


async def length_of_exabytes(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await greet(stream)
    await stream.send_all(bytes([FIN | BINARY, MASKED | 127]) + struct.pack(">Q", 2**62) + bytes(4))
    await flood(stream, bytes(1_000))
    await until_thrown_out(stream)


async def empty_pieces(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    """One message of pieces without end, all of them empty."""
    await greet(stream)
    await stream.send_all(websocket_frame(BINARY, first=0))
    await flood(stream, websocket_frame(CONTINUATION, first=0))


async def pings(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    """And the answers are not read."""
    await greet(stream)
    await flood(stream, websocket_frame(PING, bytes(125)))
    await trio.sleep(20)


async def every_close(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await random.choice((shake_hands, greet))(stream)
    code = random.choice((0, 999, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1011, 1015, 2999, 3000, 4999, 65_535))
    payload = random.choice((b"", b"\x03", struct.pack(">H", code), struct.pack(">H", code) + b"\xff\xfe"))
    await stream.send_all(websocket_frame(CLOSE, payload) + HELLO)
    await until_thrown_out(stream)


async def talks_on_after_its_close(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await greet(stream)
    await stream.send_all(websocket_frame(TEXT, b"this ends it"))
    await flood(stream, HELLO)


async def stops_within_a_frame(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await greet(stream)
    frame = binary(bytes(1_000_000))
    await stream.send_all(frame[: random.choice((1, 3, 9, 14, 70_000, 999_999))])
    await until_thrown_out(stream)


# Frames of goqueue.


async def another_version(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await shake_hands(stream)
    await stream.send_all(binary(encode(Hello(random.choice((0, 65_535)), (), "attacker"))))
    await until_thrown_out(stream)


async def no_hello(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await shake_hands(stream)
    await stream.send_all(binary(encode(Stats(), 1)))
    await until_thrown_out(stream)


async def hello_twice(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await shake_hands(stream)
    await stream.send_all(HELLO + HELLO)
    await until_thrown_out(stream)


async def silence_after_the_handshake(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await shake_hands(stream)
    await until_thrown_out(stream)


async def silence_after_the_welcome(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    """It answers no ping either."""
    await greet(stream)
    await until_thrown_out(stream)


async def hostile_frames(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await greet(stream)
    for frame in frames_of(random.getrandbits(32), 20):
        await stream.send_all(binary(frame))
    await until_thrown_out(stream)


async def questions_without_end(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    """Each is answered, and no answer is read."""
    await greet(stream)
    await flood(stream, binary(encode(Stats(), 5)) + binary(b"\x93\xcd\x03\xe7\x07\x90"))
    await trio.sleep(20)


async def long_polls_for_nothing(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    await greet(stream)
    partitions = tuple(FetchPartition(random.randbytes(16), number, 0, 0) for number in range(1_000))
    for number in range(1, 300):
        await stream.send_all(binary(encode(Fetch(30_000, 1, partitions), number)))
        await trio.sleep(FLOOD_PAUSE)


async def receives_for_nothing(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    """As a member that nobody knows, of partitions that do not exist, and the answers are not read."""
    await greet(stream)
    partitions = tuple(ReceivePartition(random.randbytes(16), number) for number in range(1_000))
    for number in range(1, 300):
        asked = bodies.receive("nobody", "nobody", number, 30_000, 2**32 - 1, 2**32 - 1, 1, True, partitions)
        await stream.send_all(binary(encode(asked, number)))
        await trio.sleep(FLOOD_PAUSE)


async def settles_what_it_never_had(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    """As many runs as fit a frame, of which all overlap."""
    await greet(stream)
    runs = (DeliveryRun(0, 2**63 - 1, 1),) * 10_000
    for number in range(1, 20):
        words = (bodies.settle(random.randbytes(16), 0, number, int(random.choice(list(Action))), runs, 1, "x"),)
        await stream.send_all(binary(encode(Settle("nobody", words), number)))
        await trio.sleep(FLOOD_PAUSE)
    await until_thrown_out(stream)


async def comes_and_goes_as_a_member(stream: trio.abc.HalfCloseableStream, random: Random) -> None:
    """Joins under many names, asks for what no group has, and never beats."""
    await greet(stream)
    for number in range(1, 200):
        member = f"hostile-{random.getrandbits(32):x}"
        settings, start = random.choice(STRANGE_SETTINGS), random.choice(("latest", "offset:9", "?"))
        asked = bodies.join("siege", member, "x", ("orders",), settings, start)
        await stream.send_all(binary(encode(asked, number)))
        await trio.sleep(FLOOD_PAUSE)


ATTACKS: tuple[Attack, ...] = (
    noise,
    silence,
    gone_at_once,
    half_a_handshake,
    a_byte_each_second,
    endless_header,
    text,
    unmasked,
    compressed,
    oversized_control,
    length_of_exabytes,
    empty_pieces,
    pings,
    every_close,
    talks_on_after_its_close,
    stops_within_a_frame,
    another_version,
    no_hello,
    hello_twice,
    silence_after_the_handshake,
    silence_after_the_welcome,
    hostile_frames,
    questions_without_end,
    long_polls_for_nothing,
    receives_for_nothing,
    settles_what_it_never_had,
    comes_and_goes_as_a_member,
)
