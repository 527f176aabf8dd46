"""goqueue without an event loop: `with goqueue.blocking.connect("ws://127.0.0.1:7710") as client`.

The same names as for Trio, with `with` and `for` and without await, from any thread. The client for Trio runs in a
thread of its own and does the work; here is only the way there and back. `fail_after` limits how long the calls in
its block wait.
"""

from goqueue.blocking.client import Client, Connecting, connect
from goqueue.blocking.consumer import Consumer
from goqueue.blocking.message import DeliveredMessage
from goqueue.blocking.producer import Producer
from goqueue.blocking.reader import Reader
from goqueue.blocking.typed import TypedProducer
from goqueue.blocking.worker import Worker, worker
from goqueue.client.consuming.retry import Retry
from goqueue.portal.waiting import fail_after

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
    "fail_after",
    "worker",
]
