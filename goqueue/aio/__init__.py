"""goqueue for asyncio: `async with goqueue.aio.connect("ws://127.0.0.1:7710") as client`.

The same names as for Trio. The client for Trio runs in a thread of its own and does the work; here is only the way
there and back. Nothing is bound to one event loop: whoever calls waits in its own.
"""

from goqueue.aio.client import Client, Connecting, connect
from goqueue.aio.consumer import Consumer
from goqueue.aio.producer import Producer
from goqueue.aio.reader import Reader
from goqueue.aio.typed import TypedProducer
from goqueue.aio.worker import Worker, worker
from goqueue.client.consuming.delivery import DeliveredMessage
from goqueue.client.consuming.retry import Retry

__all__ = [
    "Client",
    "Connecting",
    "Consumer",
    "DeliveredMessage",
    "Producer",
    "Reader",
    "Retry",
    "TypedProducer",
    "Worker",
    "connect",
    "worker",
]
