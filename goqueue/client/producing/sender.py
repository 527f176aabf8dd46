"""The sender of a producer: puts messages into send queues by partition, and sends batches until each is settled.

`core/sending/queue.py` has the rules of a send queue, `core/sending/rounds.py` those of all of them together. Here
nothing waits: adding messages, an answer or a new connection pumps the send queues, which sends at once what may be
sent. So a lone message is sent without a change of tasks. One task keeps time: for messages that linger, for pauses
before a repeat, for messages whose time is over.

To the broker a send queue is a producer with its own sequence, so a lost answer is repeated without doubling
anything (G11). Without idempotence nothing is repeated: the fate of batches that were under way when the connection
was lost is unknown.
"""

import logging
import math
from collections import deque
from collections.abc import Iterable
from typing import cast

import trio

from goqueue.client.link.caller import Caller
from goqueue.client.link.link import Link
from goqueue.client.link.topics import Topic
from goqueue.client.producing.expiring import Expiring
from goqueue.client.producing.outcome import AnyOutcome, produced_in
from goqueue.client.producing.partitionqueue import PartitionQueue, PartitionQueues
from goqueue.client.producing.topic import FollowedTopic
from goqueue.client.producing.troubles import SendTroubles
from goqueue.client.reading.message import RepeatedPublished
from goqueue.core.records.batch import Attribute, compress
from goqueue.core.sending.chunk import Chunk
from goqueue.core.sending.queue import Gathering, OutBatch
from goqueue.core.sending.rounds import SendRounds
from goqueue.errors import (
    ActorDied,
    BatchRefused,
    Closed,
    DuplicateMessage,
    GoQueueError,
    OutcomeUnknown,
    OutOfOrderSequence,
    PartitionUnavailable,
    UnknownProducer,
    UnknownTopic,
)
from goqueue.net.wire import messages as wire
from goqueue.net.wire.errors import ConnectionLost
from goqueue.net.wire.kinds import Answer
from goqueue.types import Acks

logger = logging.getLogger("goqueue.producer")

PAUSE_SECONDS = 0.05
"""The pause before a batch that the broker could not take just now is sent again."""
TICK_SECONDS_MAX = 1.0
NOBODY = wire.ProducerReady(0, 0)


class Sender:
    def __init__(
        self,
        client: Caller,
        topic: Topic,
        acks: Acks,
        gathering: Gathering,
        *,
        delivery_timeout: float,
        identity: wire.ProducerReady,
        first_partition: int,
    ) -> None:
        """`first_partition`: where messages without a key begin, modulo the number of partitions."""
        self._client = client
        self._topic = FollowedTopic(
            client,
            topic,
            first_partition=first_partition,
            on_refreshed=self._go_by_topic,
            on_gone=self._fail_all,
            on_unanswered=self._try_again,
        )
        self._acks = acks
        self._delivery_timeout = delivery_timeout
        self._tick_seconds = min(TICK_SECONDS_MAX, delivery_timeout / 8)
        self._identity = identity
        """The producer id of all send queues, until a partition forgets it. `NOBODY` without idempotence."""
        self._queues = PartitionQueues(gathering, identity)
        self._rounds = SendRounds[PartitionQueue]()
        self._troubles = SendTroubles(client)
        pump = self._pump
        self.expiring = Expiring(self._queues, self._troubles, self._fail, self._take_new_identity, pump)
        self._leaves_with: Link | None = None
        """The connection whose end of turn is awaited."""
        self._outcomes: deque[AnyOutcome] = deque()
        self.unsettled, self.is_closed = 0, False
        self._settling = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()
        self._armed, self._rearm = math.inf, trio.Event()

    async def run(self) -> None:
        """Keep time, until stopped or cancelled; afterwards the sender is closed."""
        self._client.senders[self] = None
        try:
            with self._scope:
                await self._keep_time()
        finally:
            del self._client.senders[self]
            self.close()

    async def _keep_time(self) -> None:
        while True:
            self._armed = math.inf
            self._give_up_the_late()
            if self._outcomes:
                self._troubles.look_for_broker(self.topic.name)
            self._pump_held()
            if self._outcomes:
                self._arm(min(trio.current_time() + self._tick_seconds, self._deadline(self._outcomes[0])))
            self._rearm = trio.Event()
            with trio.CancelScope(deadline=self._armed):
                await self._rearm.wait()

    def stop(self) -> None:
        self._scope.cancel()

    def close(self) -> None:
        self.is_closed = True
        self._drop(self._queues.take_all())

    def _drop(self, chunks: Iterable[Chunk]) -> None:
        """Fail messages that are not settled, and log their number."""
        dropped = self._fail(chunks, Closed("the producer was closed before this was confirmed"))
        if dropped:
            logger.warning("%d messages to %s were dropped unconfirmed", dropped, self.topic.name)

    # In

    def add(self, chunk: Chunk) -> None:
        """Put messages into their send queues and send those that may be sent."""
        outcome = cast(AnyOutcome, chunk.call)
        self.unsettled += len(chunk)
        if self.is_closed:
            self._drop([chunk])
            return
        self._outcomes.append(outcome)
        for queue in self._distribute(chunk, outcome.since):
            if self._rounds.leave_at_once or queue.messages.is_enough or not self._rounds.is_open:
                self._pump(queue)
            else:
                self._hold_to_end_of_turn(queue)
        self._topic.refresh_if_old(outcome.since)
        self._arm(outcome.since + self._tick_seconds)

    def _distribute(self, chunk: Chunk, now: float) -> "list[PartitionQueue]":
        """Returns the send queues that may send now."""
        partitioner, queues = self._topic.partitioner, []
        for number, portion in partitioner.portions(chunk):
            queue = self._queues.of(number)
            if queue.messages.add(portion, now):
                queues.append(queue)
            if queue.messages.is_full and number == partitioner.choose():
                partitioner.begin_next_batch()  # it must wait: the next batch goes elsewhere
        return queues

    def check_partition(self, partition: int | None) -> None:
        """`UnknownPartition` if the topic has no such partition, as far as is known."""
        self._topic.partitioner.choose(None, partition)

    def adopt(self, partition: int, identity: wire.ProducerReady, batch: OutBatch) -> None:
        """Send a batch of another producer id again, as it is: it may have been written. No other is under way."""
        self.unsettled += batch.count
        if self.is_closed:
            self._drop(batch.chunks)
            return
        self._outcomes.extend(cast(AnyOutcome, chunk.call) for chunk in batch.chunks)
        self._pump(self._queues.adopt(partition, identity, batch))
        self._arm(batch.since + self._tick_seconds)

    # Out

    def _hold_to_end_of_turn(self, queue: PartitionQueue) -> None:
        self._rounds.hold(queue)
        link = self._client.link
        if link is not None and link is not self._leaves_with:
            self._leaves_with = link
            link.at_end_of_turn(self._end_turn)

    def _end_turn(self) -> None:
        self._leaves_with = None
        self._pump_held()

    def pump_all(self) -> None:
        is_open = self._rounds.is_open
        for queue in self._queues:
            self._pump(queue, together=is_open)

    def _pump_held(self) -> None:
        """Send all batches of a round together, or those whose time has come."""
        is_open = self._rounds.is_open
        for queue in self._rounds.take_held():
            self._pump(queue, together=is_open)

    def _pump(self, queue: PartitionQueue, *, together: bool = False) -> None:
        """Send the batches that may be sent now, and set a deadline for the rest. Batches that are sent together do
        not wait for one another."""
        link = self._client.link
        if queue.messages.has_nothing_to_send() or link is None or queue.identity is None:
            return  # pumped again when link and identity are there
        now, others = trio.current_time(), not (together or self._rounds.is_open)
        while now >= queue.paused_until and link.has_room:
            batch = queue.messages.next_batch(now, others_under_way=others)
            if batch is None:
                break
            self._send(queue, batch, link)
            if queue.messages.has_nothing_to_send():
                return
        self._hold(queue, queue.messages.next_deadline(now, others_under_way=others), now, link)

    def _hold(self, queue: PartitionQueue, deadline: float | None, now: float, link: Link) -> None:
        if deadline is None:
            return  # it waits for answers, which pump it
        if deadline <= now >= queue.paused_until:
            self._wait_for_room(queue, link)
        else:
            self._rounds.hold(queue)
            self._arm(max(deadline, queue.paused_until))

    def _wait_for_room(self, queue: PartitionQueue, link: Link) -> None:
        def go_on() -> None:
            queue.waits_for_room_of = None
            self._pump(queue)

        if queue.waits_for_room_of is not link:
            queue.waits_for_room_of = link
            link.when_room(go_on)

    def _send(self, queue: PartitionQueue, batch: OutBatch, link: Link) -> None:
        attempt = batch.attempt
        if attempt == 1 and queue.partition == self._topic.partitioner.choose():
            self._topic.partitioner.begin_next_batch()
        request = wire.Produce(self._acks, (self._encoded(queue, batch),))
        try:
            link.post_batch(request, lambda answer: self._hear(queue, batch, attempt, answer))
        except GoQueueError as error:
            self._take_refusal(queue, batch, error)
        else:
            self._rounds.note_sent(len(batch.chunks))

    def _encoded(self, queue: PartitionQueue, batch: OutBatch) -> wire.ProduceBatch:
        assert queue.identity is not None
        body, attributes = batch.body(), 0
        if self.topic.config.get("compression") == "zstd":
            body, attributes = compress(body), int(Attribute.ZSTD)
        who, uuid = queue.identity, self.topic.uuid.bytes
        return wire.ProduceBatch(
            uuid, queue.partition, 0, who.producer_id, who.epoch, batch.sequence, attributes, batch.count, body
        )

    # Answers

    def _hear(self, queue: PartitionQueue, batch: OutBatch, attempt: int, answer: Answer | GoQueueError) -> None:
        ends_round = self._rounds.note_answered()
        if queue.messages.awaits(batch, attempt):
            self._take_answer(queue, batch, produced_in(answer))
        if ends_round:
            self._rounds.hold(queue)
            self._pump_held()
        else:
            self._pump(queue)

    def _take_answer(
        self, queue: PartitionQueue, batch: OutBatch, outcome: wire.ProducedBatch | GoQueueError
    ) -> None:
        if isinstance(outcome, wire.ProducedBatch):
            queue.messages.confirmed(batch)
            self._troubles.note_confirmed(queue.partition)
            self._confirm(queue, batch, outcome.base_offset)
        elif isinstance(outcome, ConnectionLost | ActorDied):
            self._take_loss(queue, batch)
            if isinstance(outcome, ActorDied):  # the connection stands: without a pause it would repeat at once
                self._pause(queue, outcome)
        else:
            self._take_refusal(queue, batch, outcome)

    def _confirm(self, queue: PartitionQueue, batch: OutBatch, base_offset: int | None) -> None:
        settled, topic = 0, self.topic.name
        for chunk in () if batch.is_given_up else batch.chunks:
            settled += cast(AnyOutcome, chunk.call).confirm(chunk.places, topic, queue.partition, base_offset)
            base_offset = None if base_offset is None else base_offset + len(chunk)
        self._note_settled(settled)

    def _take_loss(self, queue: PartitionQueue, batch: OutBatch) -> None:
        if self._identity is NOBODY:
            error = OutcomeUnknown(
                "the connection was lost before the answer came; it may have been written or not"
            )
            self._fail(queue.messages.refused(batch, range(batch.count)), error)
        else:
            queue.messages.unanswered(batch)

    def _take_refusal(self, queue: PartitionQueue, batch: OutBatch, error: GoQueueError) -> None:
        is_oldest = queue.messages.is_oldest(batch)
        if isinstance(error, UnknownProducer | OutOfOrderSequence) and is_oldest:
            self._begin_anew(queue)
        elif isinstance(error, BatchRefused):
            self._take_bad_records(queue, batch, error)
        elif isinstance(error, UnknownProducer | OutOfOrderSequence):
            queue.messages.not_written(batch)  # behind one that was refused
        elif isinstance(error, UnknownTopic):
            queue.messages.not_written(batch)
            queue.paused_until = math.inf
            self._topic.begin_refresh()
        elif isinstance(error, PartitionUnavailable):
            self._take_elsewhere(queue, batch, error)
        elif error.retryable:
            queue.messages.not_written(batch)
            self._pause(queue, error)
        else:
            self._fail(queue.messages.refused(batch, range(batch.count)), error)

    def _pause(self, queue: PartitionQueue, error: GoQueueError) -> None:
        queue.paused_until = trio.current_time() + PAUSE_SECONDS
        self._troubles.note_refused(self.topic.name, queue.partition, error)

    def _take_elsewhere(self, queue: PartitionQueue, batch: OutBatch, error: GoQueueError) -> None:
        """The partition cannot be used. Messages without a key that are certainly unwritten go to another one."""
        movable = self._topic.partitioner.avoid_also(queue.partition) and not batch.may_be_written
        for chunk in queue.messages.refused(batch, range(batch.count)):
            if movable and chunk.partition is None and chunk.keys is None:
                self._distribute(chunk, cast(AnyOutcome, chunk.call).since)
            else:
                self._fail([chunk], error)
        self.pump_all()

    def _take_bad_records(self, queue: PartitionQueue, batch: OutBatch, refusal: BatchRefused) -> None:
        errors = {bad.index: bad.error for bad in refusal.records}
        bad = queue.messages.refused(batch, errors.keys())
        if batch.is_given_up:
            return
        places = [(chunk, number) for chunk in bad for number in range(len(chunk))]
        for (chunk, number), index in zip(places, sorted(errors), strict=True):
            self._settle_bad(queue, chunk.picked([number]), errors[index])

    def _settle_bad(self, queue: PartitionQueue, chunk: Chunk, error: GoQueueError) -> None:
        """A repeat of a message with an id gets the first one's offset; in the same batch, it is sent again."""
        if not isinstance(error, DuplicateMessage):
            self._fail([chunk], error)
        elif error.offset is None:
            queue.messages.add(chunk, trio.current_time())
        else:
            [place], where = chunk.places, RepeatedPublished(self.topic.name, queue.partition, error.offset)
            self._note_settled(cast(AnyOutcome, chunk.call).settle(place, where))

    def _begin_anew(self, queue: PartitionQueue) -> None:
        """The partition has forgotten this send queue: messages that are certainly unwritten get a new id."""
        error = OutcomeUnknown("the broker has forgotten this producer; the message may have been written or not")
        self._fail(queue.messages.forgotten(), error)
        self._take_new_identity(queue)

    def _take_new_identity(self, queue: PartitionQueue) -> None:
        if self._identity is not NOBODY:
            queue.identity = None
            self._client.spawn(self._identify, queue)

    async def _identify(self, queue: PartitionQueue) -> None:
        while queue.identity is None and not self.is_closed:
            try:
                queue.identity = await self._client.call(wire.InitProducer(0, 0), wire.ProducerReady)
            except GoQueueError as error:
                if not error.retryable:
                    self._fail(queue.messages.drop_all(), error)
                    return
        self._pump(queue)

    # The topic: it may gain partitions, or be deleted and created again.

    @property
    def topic(self) -> Topic:
        return self._topic.now  # as far as is known

    @property
    def is_idle(self) -> bool:
        """Nothing waits, and no answer is awaited, not even for messages that were given up."""
        return not self.unsettled and self._rounds.is_open

    def refresh_if_old(self) -> None:
        self._topic.refresh_if_old(trio.current_time())

    async def refresh(self) -> None:
        """Ask the broker for the topic, and use the answer."""
        await self._topic.refresh()

    def _go_by_topic(self, is_other: bool) -> None:
        self._queues.resume_by(-math.inf)
        if is_other:
            self._move_over()
        self.pump_all()

    def _fail_all(self, error: GoQueueError) -> None:
        self._fail(self._queues.take_all(), error)

    def _try_again(self) -> None:
        """The broker did not describe the topic: send queues that wait for it send once more."""
        self._queues.resume_by(trio.current_time() + PAUSE_SECONDS)
        self.pump_all()

    def _move_over(self) -> None:
        """Messages that were written are gone with the old topic; the rest goes to the new one."""
        for chunk in self._queues.take_all():
            try:
                self._distribute(chunk, cast(AnyOutcome, chunk.call).since)
            except GoQueueError as error:
                self._fail([chunk], error)

    # Settling

    async def wait_for_some(self) -> None:
        """Return when more messages are settled."""
        await self._settling.park()

    def _fail(self, chunks: Iterable[Chunk], error: GoQueueError) -> int:
        settled = sum(cast(AnyOutcome, chunk.call).fail(chunk.places, error) for chunk in chunks)
        self._note_settled(settled)
        return settled

    def _note_settled(self, count: int) -> None:
        self.unsettled -= count
        self._settling.unpark_all()

    def _give_up_the_late(self) -> None:
        """Fail messages whose time is over; they are never sent afterwards."""
        now = trio.current_time()
        while self._outcomes and self._outcomes[0].is_settled:
            self._outcomes.popleft()
        if not self._outcomes or self._deadline(self._outcomes[0]) > now:
            return
        seconds = self._delivery_timeout
        self.expiring.expire(now, seconds)
        while self._outcomes and self._deadline(self._outcomes[0]) <= now:
            self._note_settled(self._outcomes.popleft().give_up(self.expiring.not_sent(seconds)))

    def _deadline(self, outcome: AnyOutcome) -> float:
        return outcome.since + self._delivery_timeout

    def _arm(self, deadline: float) -> None:
        """Wake the task that keeps time at this deadline, at the latest."""
        if deadline < self._armed:
            self._armed = deadline
            self._rearm.set()
