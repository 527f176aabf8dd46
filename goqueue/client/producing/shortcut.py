"""A shortcut for lone messages: the thread that sends one asks the broker by itself, on a connection of its own.

Through Trio's thread a message costs two changes of threads and turns of its event loop, which is more than all the
rest. So a client whose threads send one message at a time gets a second connection, which whoever sends drives.

What makes it sound:
- It is a producer of its own, with its own id and sequences. One message is under way at a time, and a sequence is
  used up only by an answer that says the message is written.
- A message takes it only when nothing of its producer waits or is under way. So it overtakes nothing, and what the
  thread sends next comes after its answer.
- A refusal means that nothing is written: the message goes the ordinary way, as if nothing had happened.
- When there is no clear answer (the connection is lost, a second has passed, Ctrl-C) the connection is done with,
  and the very same batch goes to the sender: with this producer id and sequence, as one that may be written. The
  sender repeats it and puts what comes later behind it, as it does with its own after a lost connection (G11).
- From the first byte of a message to the count of its sequence the connection is in doubt. Whoever finds it so,
  after an interruption at whatever moment, does not use it: a sequence that is used twice would swallow a message.
- Whatever is unusual goes the ordinary way from the beginning.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

import trio

from goqueue.client.link.caller import Caller
from goqueue.client.link.direct import ANSWER_SECONDS_MAX, DirectConnection
from goqueue.client.link.topics import Topic
from goqueue.client.producing.answered import AnsweredOutcome
from goqueue.client.producing.content import check_content
from goqueue.client.producing.intake import Intake
from goqueue.client.producing.options import send_options
from goqueue.client.producing.outcome import produced_in
from goqueue.client.producing.producer import Producer
from goqueue.client.reading.message import Published
from goqueue.core.log.producers import SEQUENCES
from goqueue.core.sending.chunk import Chunk
from goqueue.core.sending.partitioner import Partitioner
from goqueue.core.sending.queue import OutBatch
from goqueue.errors import ActorDied, GoQueueError
from goqueue.net.wire import messages as wire
from goqueue.net.wire.errors import ConnectionLost
from goqueue.portal.call import Call
from goqueue.portal.host import Host
from goqueue.portal.thread import emptied_in_children, new_lock
from goqueue.portal.waiting import has_deadline, wait_for
from goqueue.types import Acks

LONE_MIN = 20
"""From this number of lone messages on a client has the shortcut. One that sends few has one connection."""
LOOK_EACH_SECONDS = 5.0
"""A shortcut that was not used for this time is closed; one that failed is opened again after it."""
VALUE_SIZE_MAX = 64 * 1024
"""Larger values go the ordinary way, where a slow network has time for them."""


class _Direct:
    """One connection, and the producer that it is."""

    def __init__(self, connection: DirectConnection, identity: wire.ProducerReady) -> None:
        self.connection, self.identity = connection, identity
        self.is_in_doubt = False
        """A message is under way, or was when its thread was interrupted."""
        self.sequences: dict[tuple[UUID, int], int] = {}
        self._partitioners: dict[UUID, tuple[Topic, Partitioner]] = {}

    def partitioner(self, topic: Topic) -> Partitioner:
        """A topic that was asked for again may have other partitions."""
        known, partitioner = self._partitioners.get(topic.uuid, (None, None))
        if partitioner is None or known is not topic:
            partitioner = Partitioner(len(topic.partitions), self.identity.producer_id)
            partitioner.avoid(each.number for each in topic.partitions if each.error is not None)
            self._partitioners[topic.uuid] = topic, partitioner
        return partitioner

    def ask(self, acks: Acks, topic: Topic, partition: int, batch: OutBatch) -> wire.ProducedBatch | GoQueueError:
        who = self.identity
        body = wire.ProduceBatch(
            topic.uuid.bytes, partition, 0, who.producer_id, who.epoch, batch.sequence, 0, 1, batch.body()
        )
        try:
            return produced_in(self.connection.ask(wire.Produce(acks, (body,))))
        except GoQueueError as error:
            return error


class _Unclear(Exception):
    """No answer says what became of this batch."""

    def __init__(self, producer: Producer, partition: int, identity: wire.ProducerReady, batch: OutBatch) -> None:
        super().__init__()
        self._producer, self._partition, self._identity, self._batch = producer, partition, identity, batch

    def adopt(self, call: Call[Published]) -> None:
        """In Trio's thread: the sender finds out, and settles the call."""
        batch, now = self._batch, trio.current_time()
        [chunk] = batch.chunks
        chunk.since = now
        chunk.call = AnsweredOutcome([call], now)
        self._producer.adopt(self._partition, self._identity, batch)


class Shortcut:
    def __init__(
        self, host: Host[Any], client: Caller, open_direct: Callable[[], Awaitable[DirectConnection | None]]
    ) -> None:
        self._host, self._client, self._connect = host, client, open_direct
        self._direct: _Direct | None = None
        self._lock = new_lock()
        """Held by the thread that uses the connection."""
        self._lone = 0
        self._is_wanted = False
        self._used: set[Producer] = set()
        emptied_in_children.add(self)

    # From any thread

    def send(
        self,
        producer: Producer | None,
        intake: Intake,
        value: bytes | None,
        key: bytes | None,
        options: Mapping[str, Any],
    ) -> Published | None:
        """None: send it the ordinary way."""
        if self._lock.locked() or has_deadline() or producer is None or not intake.is_empty:
            return None
        topic = producer.idle_topic
        if (
            topic is None
            or topic.config.get("compression") == "zstd"
            or "partition" in options
            or "message_id" in options
        ):
            return None
        if self._direct is None:
            self._note_lone()
            return None
        check_content(value, key, options.get("headers"))
        if value is not None and len(value) > VALUE_SIZE_MAX:
            return None
        try:
            with self._lock:
                return self._send(producer, topic, value, key, options)
        except _Unclear as unclear:
            left = unclear
        return wait_for(self._host.thread, lambda call: self._host.thread.begin(call, partial(left.adopt, call)))

    def _send(
        self,
        producer: Producer,
        topic: Topic,
        value: bytes | None,
        key: bytes | None,
        options: Mapping[str, Any],
    ) -> Published | None:
        direct = self._direct
        if direct is None or direct.is_in_doubt:
            self._direct = None
            return None
        self._used.add(producer)
        content = send_options(self._client.clock.now(), **options).content
        chunk = Chunk(None, content, [value], range(1), [key] if key else None)
        partitioner = direct.partitioner(topic)
        partition = partitioner.choose(key)
        batch = OutBatch([chunk], 1, direct.sequences.get((topic.uuid, partition), 0), is_sent=True)
        unclear = _Unclear(producer, partition, direct.identity, batch)
        try:
            outcome = self._ask(direct, producer.acks, topic, partition, batch)
        except BaseException:  # Ctrl-C
            self._drop(direct)
            self._host.thread.tell(partial(unclear.adopt, Call(_nobody)))
            raise
        if isinstance(outcome, wire.ProducedBatch):
            if not key:
                partitioner.begin_next_batch()
            return Published(topic.name, partition, outcome.base_offset)
        self._drop(direct)
        if isinstance(outcome, ConnectionLost | ActorDied):
            raise unclear
        return None  # refused: nothing is written

    def _ask(
        self, direct: _Direct, acks: Acks, topic: Topic, partition: int, batch: OutBatch
    ) -> wire.ProducedBatch | GoQueueError:
        direct.is_in_doubt = True
        outcome = direct.ask(acks, topic, partition, batch)
        if isinstance(outcome, wire.ProducedBatch):
            direct.sequences[topic.uuid, partition] = (batch.sequence + 1) % SEQUENCES
            direct.is_in_doubt = False
            if self._direct is not direct:  # it is no longer wanted
                direct.connection.close()
        return outcome

    def _drop(self, direct: _Direct) -> None:
        """By the thread that uses it."""
        if self._direct is direct:
            self._direct = None
        direct.connection.close()

    def _note_lone(self) -> None:
        self._lone += 1
        if self._lone >= LONE_MIN and not self._is_wanted:
            self._is_wanted = True
            self._host.thread.tell(self._begin)

    def settle(self) -> None:
        """Return when a message that is just under way here is settled, or left to its sender."""
        if self._lock.acquire(timeout=3 * ANSWER_SECONDS_MAX):
            self._lock.release()

    def clear(self) -> None:
        """In a child of the process: the connection is the parent's."""
        direct, self._direct, self._is_wanted = self._direct, None, True
        self._lock = new_lock()
        if direct is not None:
            direct.connection.close()

    # In the Trio thread

    def _begin(self) -> None:
        self._is_wanted = self._host.run_beside(self._live)

    async def _live(self) -> None:
        direct: _Direct | None = None
        try:
            direct = await self._open()
            uses = -1
            while direct is not None and self._direct is direct and direct.connection.uses != uses:
                uses = direct.connection.uses
                await trio.sleep(LOOK_EACH_SECONDS)
                self._look_at_topics()
            if direct is None:
                await trio.sleep(LOOK_EACH_SECONDS)
        finally:
            self._direct = None
            if direct is not None:
                self._end(direct)
            self._lone, self._is_wanted = 0, False

    async def _open(self) -> _Direct | None:
        try:
            connection = await self._connect()
        except (OSError, GoQueueError):
            return None
        if connection is None:
            return None
        try:
            identity = await self._client.call(wire.InitProducer(0, 0), wire.ProducerReady)
        except BaseException as error:
            connection.close()
            if isinstance(error, GoQueueError):
                return None
            raise
        self._direct = _Direct(connection, identity)
        return self._direct

    def _look_at_topics(self) -> None:
        """Nothing else asks for them while all messages come this way."""
        used, self._used = self._used, set()
        for producer in used:
            producer.refresh_if_old()

    def _end(self, direct: _Direct) -> None:
        """A thread that uses it at this moment hears of its end, and closes it."""
        direct.connection.end()
        if self._lock.acquire(blocking=False):
            direct.connection.close()
            self._lock.release()


def _nobody() -> None:
    """The caller does not wait any more."""
