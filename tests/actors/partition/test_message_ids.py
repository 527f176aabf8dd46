"""A partition writes a message id once in two minutes, and answers a repeat when it would answer the first."""

from collections.abc import Sequence
from random import Random

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from goqueue.actors.partition.board import board_of
from goqueue.actors.partition.requests import Produce, Produced
from goqueue.actors.runtime.messages import Reply
from goqueue.actors.runtime.ref import ActorRef
from goqueue.config import LogConfig
from goqueue.core.log.admission import Admission
from goqueue.core.log.messageids import REMEMBERED_FOR
from goqueue.core.records.batch import NO_PRODUCER, Attribute, Producer, compress
from goqueue.core.records.record import MESSAGE_ID_HEADER, encode_record
from goqueue.errors import BatchRefused, DiskFull, DuplicateMessage, OutOfOrderSequence, TopicFull
from goqueue.testing.clock import SimulatedClock
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.actors.partition.test_partition import SYNC_SECONDS, partition, values

HOUR = 3600 * 1_000_000


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(Random(0))
    disk.faults.sync_seconds = (SYNC_SECONDS, SYNC_SECONDS)
    return disk


def publish(
    *ids: bytes | None, acks: Acks = Acks.ALL, producer: Producer = NO_PRODUCER, zstd: bool = False
) -> Produce:
    """A message for each of these, with that id or without any; the id is its value too."""
    named = [{} if each is None else {MESSAGE_ID_HEADER: each} for each in ids]
    body = b"".join(
        encode_record(number, 1, ids[number] or b"-", headers=headers) for number, headers in enumerate(named)
    )
    attributes = Attribute.ZSTD if zstd else 0
    return Produce(compress(body) if zstd else body, len(ids), attributes, producer, acks)


async def repeats(ref: ActorRef, message: Produce) -> dict[int, int | None]:
    """Which records the refusal names, and where it says that their firsts are."""
    with pytest.raises(BatchRefused) as refused:
        await ref.call(message)
    return named_in(refused.value)


def named_in(refusal: BatchRefused) -> dict[int, int | None]:
    named = {}
    for bad in refusal.records:
        assert isinstance(bad.error, DuplicateMessage)
        named[bad.index] = bad.error.offset
    return named


@pytest.mark.parametrize("zstd", [False, True])
async def test_a_repeat_is_refused_with_the_first_offset_and_the_rest_may_be_sent(
    disk: SimulatedDisk, autojump_clock: MockClock, zstd: bool
) -> None:
    """G11"""
    async with partition(disk) as ref:
        await ref.call(publish(None, b"a", zstd=zstd))
        assert await repeats(ref, publish(b"b", b"a", None, zstd=zstd)) == {1: 1}
        assert (await ref.call(publish(b"b", None, zstd=zstd))).base_offset == 2
        assert await values(ref) == [b"-", b"a", b"b", b"-"]


async def test_copies_in_one_batch_are_sent_one_after_the_other(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with partition(disk) as ref:
        assert await repeats(ref, publish(b"a", b"a", b"b", b"a")) == {1: None, 3: None}
        assert (await ref.call(publish(b"a", b"b"))).base_offset == 0
        assert await repeats(ref, publish(b"a", b"a")) == {0: 0, 1: 0}
        assert await values(ref) == [b"a", b"b"]


async def test_a_repeat_is_answered_when_its_original_is_durable(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G1: with acks=all a client hears of no offset that a power cut could take away."""
    async with partition(disk) as ref:
        await ref.call(publish(b"a", acks=Acks.LEADER))
        assert (await board_of(ref)).log.durable_offset == 0
        begin = trio.current_time()
        assert await repeats(ref, publish(b"a")) == {0: 0}
        assert (await board_of(ref)).log.durable_offset == 1
        assert SYNC_SECONDS <= trio.current_time() - begin < 5 * SYNC_SECONDS


@pytest.mark.parametrize("acks", [Acks.NONE, Acks.LEADER])
async def test_who_does_not_wait_for_the_disk_hears_of_a_repeat_at_once(
    disk: SimulatedDisk, autojump_clock: MockClock, acks: Acks
) -> None:
    async with partition(disk) as ref:
        await ref.call(publish(b"a", acks=Acks.LEADER))
        begin = trio.current_time()
        assert await repeats(ref, publish(b"a", acks=acks)) == {0: 0}
        assert trio.current_time() == begin


async def test_a_copy_in_the_same_batch_waits_for_no_disk(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """It names nothing that is written."""
    async with partition(disk) as ref:
        begin = trio.current_time()
        assert await repeats(ref, publish(b"a", b"a")) == {1: None}
        assert trio.current_time() == begin


async def test_producers_that_send_one_id_in_one_turn_write_it_once(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    outcomes: list[object] = []

    async def send(ref: ActorRef) -> None:
        try:
            outcomes.append((await ref.call(publish(b"a"))).base_offset)
        except BatchRefused as refusal:
            outcomes.append(named_in(refusal))
        assert (await board_of(ref)).log.durable_offset == 1

    async with partition(disk) as ref:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(send, ref)
        assert sorted(outcomes, key=str) == [0, {0: 0}, {0: 0}]
        assert await values(ref) == [b"a"]


async def test_after_two_minutes_the_id_is_written_again(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    clock = SimulatedClock()
    async with partition(disk, clock=clock) as ref:
        written = (await ref.call(publish(b"a"))).append_time
        clock.step(written + REMEMBERED_FOR - 1 - clock.now())
        assert await repeats(ref, publish(b"a", acks=Acks.LEADER)) == {0: 0}
        clock.step(1)
        assert (await ref.call(publish(b"a"))).base_offset == 1


@pytest.mark.parametrize("end", ["shut down", "power cut", "kill"])
async def test_a_restart_remembers(disk: SimulatedDisk, autojump_clock: MockClock, end: str) -> None:
    clock = SimulatedClock()
    async with partition(disk, LogConfig(segment_bytes=200), clock) as ref:
        for each in (b"a", b"b", b"c"):
            written = (await ref.call(publish(each))).append_time
        image = disk.crash() if end == "power cut" else disk.kill()
    async with partition(disk if end == "shut down" else image, clock=clock) as ref:
        clock.step(written + 100 * 1_000_000 - clock.now())
        assert await repeats(ref, publish(b"d", b"c", b"b", b"a")) == {1: 2, 2: 1, 3: 0}
        clock.step(20 * 1_000_000)
        assert (await ref.call(publish(b"a", b"b", b"c"))).base_offset == 3


@pytest.mark.parametrize("jump", [-HOUR, -REMEMBERED_FOR, 0])
async def test_a_restart_with_a_clock_that_went_back_remembers_too(
    disk: SimulatedDisk, autojump_clock: MockClock, jump: int
) -> None:
    clock = SimulatedClock()
    async with partition(disk, clock=clock) as ref:
        await ref.call(publish(b"a"))
    clock.step(jump)
    async with partition(disk, clock=clock) as ref:
        assert await repeats(ref, publish(b"a")) == {0: 0}
        assert (await ref.call(publish(b"b"))).base_offset == 1


async def test_what_was_old_before_the_clock_went_back_stays_old(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    clock = SimulatedClock()
    async with partition(disk, clock=clock) as ref:
        written = (await ref.call(publish(b"a"))).append_time
        clock.step(written + REMEMBERED_FOR - clock.now())
        assert (await ref.call(publish(None))).append_time == written + REMEMBERED_FOR
    clock.step(-HOUR)
    async with partition(disk, clock=clock) as ref:
        assert (await ref.call(publish(b"a"))).base_offset == 2


async def test_a_clock_that_is_wrong_while_starting_costs_no_memory(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """Only what was appended since makes an id old, or the time when it is asked for."""
    clock = SimulatedClock()
    async with partition(disk, clock=clock) as ref:
        await ref.call(publish(b"a"))
    clock.step(HOUR)
    async with partition(disk, clock=clock) as ref:
        clock.step(-HOUR)
        assert await repeats(ref, publish(b"a")) == {0: 0}


async def test_what_a_full_disk_refused_has_claimed_no_id(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """Nor is a repeat of it, in the same turn, told of an offset that is nobody's."""
    async with partition(disk) as ref:
        await ref.call(publish(b"a"))
        capacity, disk.capacity = disk.capacity, disk.capacity - disk.space("/").free + 20
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(expect_full, ref, publish(b"b"))
        disk.capacity = capacity
        await trio.sleep(1)
        assert (await ref.call(publish(b"b"))).base_offset == 1
        assert await values(ref) == [b"a", b"b"]


async def expect_full(ref: ActorRef, message: Produce) -> None:
    with pytest.raises((DiskFull, TopicFull)):
        await ref.call(message)


async def test_what_a_full_topic_refused_has_claimed_no_id(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    async with partition(disk, admission=Admission(messages_max=1)) as ref:
        await ref.call(publish(b"a"))
        for _ in range(2):
            await expect_full(ref, publish(b"b"))
        assert await repeats(ref, publish(b"a")) == {0: 0}


async def test_a_refused_batch_uses_no_sequence_and_those_behind_it_are_out_of_order(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    async with partition(disk) as ref:
        await ref.call(publish(b"a", producer=Producer(1, 0, 0)))
        assert await repeats(ref, publish(b"a", b"b", producer=Producer(2, 0, 0))) == {0: 0}
        assert await repeats(ref, publish(b"b", b"a", producer=Producer(1, 0, 1))) == {1: 0}
        with pytest.raises(OutOfOrderSequence):
            await ref.call(publish(b"c", producer=Producer(1, 0, 3)))
        assert (await ref.call(publish(b"b", producer=Producer(1, 0, 1)))).base_offset == 1
        assert (await ref.call(publish(b"c", producer=Producer(1, 0, 2)))).base_offset == 2


async def test_a_batch_repeated_by_its_sequence_is_answered_as_a_whole(
    disk: SimulatedDisk, autojump_clock: MockClock
) -> None:
    """G11, also after a restart: its own ids are no reason to refuse it."""
    message = publish(b"a", b"b", producer=Producer(1, 0, 0))
    async with partition(disk) as ref:
        assert (await ref.call(message)).base_offset == 0
        assert (await ref.call(message)).base_offset == 0
    async with partition(disk) as ref:
        assert (await ref.call(message)).base_offset == 0
        assert await values(ref) == [b"a", b"b"]


async def test_a_stop_answers_a_repeat_that_waits(disk: SimulatedDisk, autojump_clock: MockClock) -> None:
    """G15"""
    disk.faults.sync_seconds = (0.5, 0.5)
    found: list[dict[int, int | None]] = []

    async def send(ref: ActorRef) -> None:
        found.append(await repeats(ref, publish(b"a")))

    async with trio.open_nursery() as nursery, partition(disk) as ref:
        await ref.call(publish(b"a", acks=Acks.LEADER))
        nursery.start_soon(send, ref)
        await wait_all_tasks_blocked()
        assert found == []
    assert found == [{0: 0}]


Ids = Sequence[bytes | None]
Step = tuple[int, list[list[bytes | None]], str]
batches = st.lists(
    st.lists(st.sampled_from([b"a", b"b", b"c", b"d", None]), min_size=1, max_size=3), min_size=1, max_size=3
)
fates = st.sampled_from(["", "", "", "disk full", "shut down", "power cut", "kill", "clock back"])
stories = st.lists(st.tuples(st.integers(0, 50), batches, fates), max_size=12)


@given(stories)
def test_whatever_happens_an_id_is_written_once_in_two_minutes(story: list[Step]) -> None:
    """G11, against a dict of ids: turns of many batches, full disks, restarts of all kinds, a clock that jumps."""
    trio.run(_live, story, clock=MockClock(autojump_threshold=0))


async def _live(story: list[Step]) -> None:
    disk, clock = SimulatedDisk(Random(0)), SimulatedClock()
    model = Model(clock)
    while story:
        image = disk
        async with partition(disk, LogConfig(segment_bytes=400), clock) as ref:
            while story:
                (seconds, sent, fate), story = story[0], story[1:]
                clock.step(-HOUR if fate == "clock back" else seconds * 1_000_000)
                await model.turn(ref, disk, sent, is_full=fate == "disk full")
                if fate in ("shut down", "power cut", "kill"):
                    image = {"shut down": disk, "power cut": disk.crash(), "kill": disk.kill()}[fate]
                    break
        disk = image


class Model:
    """A dict of ids, each with the offset and the append time of its first message."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.first: dict[bytes, tuple[int, int]] = {}
        self.end = self.append_time = 0

    async def turn(self, ref: ActorRef, disk: SimulatedDisk, sent: Sequence[Ids], *, is_full: bool) -> None:
        now, capacity = max(self.clock.now(), self.append_time), disk.capacity
        if is_full:
            disk.capacity -= disk.space("/").free
        asked = [await ref.ask(publish(*ids)) for ids in sent]
        for ids, reply in zip(sent, asked, strict=True):
            expected = self.repeats(ids, now)
            outcome = await outcome_of(reply)
            if outcome is DiskFull:
                assert is_full
            elif isinstance(outcome, Produced):
                assert (outcome, expected, is_full) == (Produced(self.end, now), {}, False)
                self.write(ids, now)
            else:
                assert outcome == expected
        disk.capacity = capacity
        await trio.sleep(1)

    def repeats(self, ids: Ids, now: int) -> dict[int, int | None]:
        known: dict[bytes, int | None] = {
            each: offset for each, (offset, time) in self.first.items() if now - time < REMEMBERED_FOR
        }
        found = {}
        for index, message_id in enumerate(ids):
            if message_id in known:
                found[index] = known[message_id]
            elif message_id is not None:
                known[message_id] = None
        return found

    def write(self, ids: Ids, now: int) -> None:
        for index, message_id in enumerate(ids):
            if message_id is not None:
                self.first[message_id] = (self.end + index, now)
        self.end, self.append_time = self.end + len(ids), now


async def outcome_of(reply: Reply[Produced]) -> Produced | dict[int, int | None] | type[DiskFull]:
    try:
        return await reply.wait()
    except BatchRefused as refusal:
        return named_in(refusal)
    except DiskFull:
        return DiskFull
