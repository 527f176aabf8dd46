"""RabbitMQ through pika: a durable queue, persistent messages, publisher confirms, many acknowledged at once.

Publishing and consuming go through pika's asynchronous connection with many messages under way, which is its fast
way; a blocking channel with confirms waits for each message, and so is what single publishes use.

The server is Erlang's: it wants a name server for nodes (epmd), which would stay behind as a daemon for the whole
machine, and a cookie in the home of its user. Both live in the temporary folder here and end with the benchmark.
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice, takewhile
from itertools import count as numbers
from pathlib import Path
from typing import Any

from benchmarks.children import HOST, Unavailable, free_port, program, server
from benchmarks.figures import timed
from benchmarks.peers.workload import BLOCK, Peer, What, Workload, Wrong, blocks, check_count, check_values

try:
    import pika

    PERSISTENT = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent.value)
except ImportError:
    pika = None

NAME = "RabbitMQ"
UNCONFIRMED_MAX = 1_000
PREFETCH = 1_000
ACK_EACH = 500
DURABILITY = "on disk, in groups, before they are confirmed"


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, int]]:
    """The pid of a server, which leads its session, and its port."""
    if pika is None:
        raise Unavailable("its client pika is not installed")
    # Debian's wrapper in /usr/sbin changes the user and the folders; the script behind it does not.
    command = program("rabbitmq-server", "/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin")
    port, names_port = free_port(), free_port()
    epmd = [program("epmd"), "-address", HOST, "-port", str(names_port)]
    with (
        server(epmd, folder, names_port),
        server([command], folder, port, _environment(folder, port, names_port)) as pid,
    ):
        yield pid, port


@contextmanager
def started(folder: Path) -> Iterator[Peer]:
    with serving(folder) as (_, port):
        queues = Queues(pika.ConnectionParameters(HOST, port))
        many = f"basic_publish, {UNCONFIRMED_MAX:,} unconfirmed"
        consume = f"basic_consume, prefetch {PREFETCH:,}, ack of {ACK_EACH}"
        yield Peer(
            NAME,
            queues.version(),
            [
                Workload("rabbitmq", NAME, What.PUBLISH, many, DURABILITY, queues.publish),
                Workload("rabbitmq read", NAME, What.READ, consume, "messages removed", queues.read),
                Workload("rabbitmq single", NAME, What.SINGLE, "basic_publish", DURABILITY, queues.single),
            ],
        )


def _environment(folder: Path, port: int, names_port: int) -> dict[str, str]:
    distribution = free_port()
    loopback = f"-kernel inet_dist_use_interface {{127,0,0,1}} inet_dist_listen_min {distribution}"
    return {
        "HOME": str(folder),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": loopback,
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "no-such-file"),
        "RABBITMQ_CONFIG_FILE": str(folder / "no-such-file"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "ERL_EPMD_ADDRESS": HOST,
        "ERL_EPMD_PORT": str(names_port),
    }


class Queues:
    def __init__(self, parameters: Any) -> None:
        self._parameters = parameters
        self._names = (f"run-{number}" for number in numbers())

    def version(self) -> str:
        with pika.BlockingConnection(self._parameters) as connection:
            return str(connection._impl.server_properties["version"])

    def publish(self, count: int) -> float:
        with self._new_queue() as (channel, queue):
            seconds = Publishing(queue, count).run(self._parameters)
            check_count(_messages(channel, queue), count, "confirmed and there")
        return seconds

    def read(self, count: int) -> float:
        with self._new_queue() as (channel, queue):
            Publishing(queue, count).run(self._parameters)
            consuming = Consuming(queue, count)
            seconds = consuming.run(self._parameters)
            check_values(consuming.found, count)
            check_count(_messages(channel, queue), 0, "left over")
        return seconds

    def single(self, count: int) -> float:
        seconds = []
        with self._new_queue() as (channel, queue):
            channel.confirm_delivery()
            for value in BLOCK[:count]:
                with timed() as watch:
                    channel.basic_publish("", queue, value, PERSISTENT, mandatory=True)
                seconds.append(watch.seconds)
            check_count(_messages(channel, queue), count, "confirmed and there")
        return statistics.median(seconds)

    @contextmanager
    def _new_queue(self) -> Iterator[tuple[Any, str]]:
        queue = next(self._names)
        with pika.BlockingConnection(self._parameters) as connection:
            channel = connection.channel()
            channel.queue_declare(queue, durable=True)
            yield channel, queue
        # The work may have taken longer than heartbeats are awaited for: another connection cleans up.
        with pika.BlockingConnection(self._parameters) as connection:
            connection.channel().queue_delete(queue)


class Conversation:
    """One asynchronous connection with one channel, timed from when that is open until all is done."""

    def __init__(self, queue: str, count: int) -> None:
        self.queue = queue
        self.count = count
        self.channel: Any = None
        self._connection: Any = None
        self._began = self._seconds = 0.0
        self._failure: Wrong | None = None

    def run(self, parameters: Any) -> float:
        self._connection = pika.SelectConnection(
            parameters, self._on_connected, self._on_refused, lambda *_: self._connection.ioloop.stop()
        )
        self._connection.ioloop.start()
        if self._failure is not None:
            raise self._failure
        return self._seconds

    def begin(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        self._seconds = time.perf_counter() - self._began
        self._connection.close()

    def fail(self, why: str) -> None:
        self._failure = Wrong(why)
        self._connection.close()

    def _on_connected(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._on_open)

    def _on_refused(self, connection: Any, error: BaseException) -> None:
        self._failure = Wrong(f"cannot connect: {error}")
        connection.ioloop.stop()

    def _on_open(self, channel: Any) -> None:
        self.channel = channel
        self._began = time.perf_counter()
        self.begin()


class Publishing(Conversation):
    """Keeps so many messages under way that the server can confirm many at once."""

    def __init__(self, queue: str, count: int) -> None:
        super().__init__(queue, count)
        self._values = chain.from_iterable(blocks(count))
        self._sent = 0
        self._unconfirmed: dict[int, None] = {}

    def begin(self) -> None:
        self.channel.confirm_delivery(self._on_answer)
        self._send_more()

    def _send_more(self) -> None:
        for value in islice(self._values, UNCONFIRMED_MAX - len(self._unconfirmed)):
            self._sent += 1
            self._unconfirmed[self._sent] = None
            self.channel.basic_publish("", self.queue, value, PERSISTENT)

    def _on_answer(self, frame: Any) -> None:
        if not isinstance(frame.method, pika.spec.Basic.Ack):
            self.fail(f"message {frame.method.delivery_tag} was not confirmed")
            return
        if frame.method.multiple:
            for tag in list(takewhile(lambda tag: tag <= frame.method.delivery_tag, self._unconfirmed)):
                del self._unconfirmed[tag]
        else:
            del self._unconfirmed[frame.method.delivery_tag]
        self._send_more()
        if not self._unconfirmed and self._sent == self.count:
            self.end()


class Consuming(Conversation):
    def __init__(self, queue: str, count: int) -> None:
        super().__init__(queue, count)
        self.found: list[bytes] = []

    def begin(self) -> None:
        self.channel.basic_qos(prefetch_count=PREFETCH)
        self.channel.basic_consume(self.queue, self._on_message)

    def _on_message(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.found.append(body)
        if len(self.found) % ACK_EACH == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if len(self.found) == self.count:
            self.end()


def _messages(channel: Any, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)
