"""A small data directory, all the harm that can be done to one byte or to the end of each of its files, and the
judgement over what a broker makes of it."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import trio

from goqueue.actors.delays.requests import CancelDelayed, ListDelayed, MoveDelayed
from goqueue.actors.node.broker import Broker
from goqueue.actors.partition.requests import Fetch, Produce
from goqueue.actors.runtime.ref import ActorRef
from goqueue.actors.topics.board import described_topics
from goqueue.actors.topics.requests import CreateTopic, TopicView
from goqueue.core.ledger.settlements import Action
from goqueue.core.names import METADATA_LOG
from goqueue.core.records.batch import ENVELOPE_SIZE, NO_PRODUCER, Attribute, compress, parse_envelope
from goqueue.core.records.record import encode_record
from goqueue.errors import DamagedData, GoQueueError, PartitionUnavailable
from goqueue.storage.checkedjson import CHECKSUM
from goqueue.storage.delays.entries import ENTRY_SIZE, HEADER_SIZE
from goqueue.storage.delays.index import NAME as DELAYS
from goqueue.storage.disk.reserve import RESERVE
from goqueue.storage.journals.file import decode_frame
from goqueue.storage.journals.groups import GROUPS, REGISTRY
from goqueue.storage.snapshotlog.ledgers import FOLDER as LEDGERS
from goqueue.storage.verification.verify import verify
from goqueue.testing.disk import SimulatedDisk
from goqueue.types import Acks
from tests.actors.delivery.gatherers import broker, partition_of
from tests.actors.groups.groupworld import consumer
from tests.storage.logs import NOW, records_in

DATA = "/data"
TOPICS = {"orders": 2, "events": 1}
BATCHES = 9
DELAYING = ("orders", 1)
LATER = 2 * NOW
GROUP = "billing"
ACKED = 6
"""So many from the first on were acked."""
SETTLING_SECONDS, LEASES_SECONDS = 3.0, 120.0
SEGMENTS = {"segment_bytes": 1024}
Place = tuple[str, int]
"""A partition: its topic's name and its number."""
Contents = dict[Place, dict[int, bytes]]
"""Of each partition, what lies at each offset."""

BatchPlace = tuple[int, int, int, int]
"""Where a batch begins and ends, in bytes and in offsets."""


@dataclass(frozen=True, slots=True)
class Harm:
    """One bit of a byte flipped, or with `bit` None everything from that byte on cut off."""

    path: str
    position: int
    bit: int | None

    def do(self, disk: SimulatedDisk) -> None:
        if self.bit is None:
            disk.cut(self.path, self.position)
        else:
            disk.flip_bit(self.path, self.position, self.bit)

    def spares(self, begin: int, end: int) -> bool:
        """Whether bytes that lay there are as they were."""
        if self.bit is None:
            return end <= self.position
        return not begin <= self.position < end


@dataclass(slots=True)
class Found:
    """What a broker on a harmed directory served and said."""

    contents: Contents = field(default_factory=dict)
    named: dict[Place, list[GoQueueError]] = field(default_factory=dict)
    refusal: GoQueueError | None = None
    """Why it did not start."""
    pending: dict[int, int | None] = field(default_factory=dict)
    """Delayed messages of the partition that has some, and when they are due."""
    delivered: set[int] | GoQueueError = field(default_factory=set)
    """To the group, of the first partition; or why nothing was."""


async def filled(*, killed: bool = False) -> SimulatedDisk:
    """Two topics, several segments each, one compressed, some messages delayed, and a group that did some of it;
    closed, or just left."""
    disk = SimulatedDisk(Random(0))
    async with broker(disk) as running:
        for name, partitions in TOPICS.items():
            made = await running.topics.call(CreateTopic(name, partitions, dict(SEGMENTS)))
            for number in range(partitions):
                ref = await partition_of(running, made, number)
                for turn in range(BATCHES):
                    await ref.call(_produce(name, number, turn))
                if (name, number) == DELAYING:
                    await _delay(ref)
        await _consume(running)
        left = disk.kill()
    return left if killed else disk.kill()


async def _delay(ref: ActorRef) -> None:
    """Three wait, of which one is cancelled and one moved."""
    records = [encode_record(each, NOW, b"later %d" % each, due=LATER + each) for each in range(3)]
    produced = await ref.call(Produce(b"".join(records), len(records)))
    assert await ref.call(CancelDelayed(produced.base_offset))
    assert await ref.call(MoveDelayed(produced.base_offset + 1, 2 * LATER))


async def _consume(running: Broker) -> None:
    """Some are acked, some will come again; the rest was not looked at."""
    member = await consumer(running, *TOPICS, group=GROUP)
    await trio.sleep(SETTLING_SECONDS)
    for count, action in ((ACKED, Action.ACK), (2, Action.NACK), (1, Action.RELEASE)):
        await member.settle("orders", 0, await member.take("orders", 0, count), action)
    await trio.sleep(SETTLING_SECONDS)


def _produce(topic: str, number: int, turn: int) -> Produce:
    values = [b"%s %d %d %d" % (topic.encode(), number, turn, each) * 4 for each in range(2)]
    body = b"".join(encode_record(each, NOW, value, key=b"key", priority=each) for each, value in enumerate(values))
    zstd = topic == "events"
    return Produce(
        compress(body) if zstd else body, len(values), Attribute.ZSTD if zstd else 0, NO_PRODUCER, Acks.ALL
    )


def files_in(disk: SimulatedDisk, folder: str = DATA) -> Iterator[str]:
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        if disk.is_directory(path):
            yield from files_in(disk, path)
        else:
            yield path


async def bytes_of(disk: SimulatedDisk, path: str) -> bytes:
    return bytes(await disk.open(path, writable=False).read(0, disk.size(path)))


def all_harms(disk: SimulatedDisk) -> list[Harm]:
    """Every byte of every file with one bit flipped, and every file cut at every length.

    Not of the reserve: it only takes up room, and nobody reads it.
    """
    harms = []
    for path in files_in(disk):
        if path == f"{DATA}/{RESERVE}":
            continue
        size = disk.size(path)
        harms += [Harm(path, position, position % 8) for position in range(size)]
        harms += [Harm(path, position, None) for position in range(size)]
    return harms


async def provable_harms(disk: SimulatedDisk) -> list[Harm]:
    """Those that a directory which was just left can be known to have suffered.

    Nothing behind the last batch of a log says that it was ever durable, so harm to it is a torn tail.
    """
    logs = [path for path in files_in(disk) if path.endswith(".log")]
    last = {path.rpartition("/")[0]: path for path in logs}
    begins = {path: (await batches_of(disk, path))[-1][0] for path in last.values()}

    def is_provable(harm: Harm) -> bool:
        if is_of_groups(harm):
            return False  # their last entries likewise
        return harm.path not in begins or (harm.bit is not None and harm.position < begins[harm.path])

    return [harm for harm in all_harms(disk) if is_provable(harm)]


async def serve_from(disk: SimulatedDisk, *, with_group: bool = False) -> Found:
    """Start, read everything, publish to each partition and read that back; let the group have what it is given."""
    found = Found()
    try:
        async with broker(disk) as running:
            for place, ref in await _partitions(running):
                await _read(found, place, ref)
                await _publish_more(found, place, ref)
                if place == DELAYING:
                    await _list_delayed(found, ref)
            if with_group:
                found.delivered = await _delivered(running)
    except GoQueueError as error:
        found.refusal = error
    return found


async def _list_delayed(found: Found, ref: ActorRef) -> None:
    with suppress(PartitionUnavailable):
        page = await ref.call(ListDelayed(0, 100, False))
        found.pending = {view.offset: view.due for view in page.views}


async def _delivered(running: Broker) -> set[int] | GoQueueError:
    """Which offsets of the first partition the group is given, each as often as need be; or why none."""
    offsets = set[int]()
    try:
        member = await consumer(running, *TOPICS, group=GROUP)
        await trio.sleep(LEASES_SECONDS)
        while (taken := await member.take("orders", 0, 100)).all_runs:
            offsets |= {offset for run in taken.all_runs for offset in range(run.first, run.last + 1)}
            await member.settle("orders", 0, taken, Action.ACK)
    except GoQueueError as error:
        return error
    return offsets


async def _partitions(running: Broker) -> list[tuple[Place, ActorRef]]:
    topics: tuple[TopicView, ...] = await described_topics(running.topics)
    return [
        ((topic.name, view.partition), await partition_of(running, topic, view.partition))
        for topic in topics
        for view in topic.partitions
    ]


async def _read(found: Found, place: Place, ref: ActorRef, start: int = 0) -> None:
    values, named = found.contents.setdefault(place, {}), found.named.setdefault(place, [])
    offset = start
    while True:
        try:
            slice_ = await ref.call(Fetch(offset, 1_000))
        except DamagedData as damage:
            named.append(damage)
            offset = _beyond(offset, damage.end_offset)
            continue
        except PartitionUnavailable as error:
            named.append(error)
            return
        values |= {record.offset: record.value for record in records_in(slice_.data) if record.offset >= offset}
        if slice_.next_offset == offset:
            return
        offset = slice_.next_offset


def _beyond(offset: int, end: int) -> int:
    assert end > offset, "an error that leads nowhere"
    return end


async def _publish_more(found: Found, place: Place, ref: ActorRef) -> None:
    """What is published now has an offset that nobody saw before, and is read back."""
    if any(isinstance(error, PartitionUnavailable) for error in found.named[place]):
        return
    seen = found.contents[place]
    produced = await ref.call(_produce("orders", 9, 9))
    assert produced.base_offset >= 2 * BATCHES, f"{place} gives offset {produced.base_offset} once more (G3)"
    assert produced.base_offset not in seen
    more = Found()
    await _read(more, place, ref, produced.base_offset)
    assert len(more.contents[place]) == 2


async def batches_of(disk: SimulatedDisk, path: str) -> list[BatchPlace]:
    data = await bytes_of(disk, path)
    found, position = [], 0
    while position < len(data):
        envelope = parse_envelope(data, position)
        assert envelope is not None
        assert envelope.size > ENVELOPE_SIZE
        found.append((position, position + envelope.size, envelope.base_offset, envelope.end_offset))
        position += envelope.size
    return found


class Judge:
    """Knows what was there, and says what is wrong with what a broker made of a harmed directory."""

    def __init__(
        self,
        disk: SimulatedDisk,
        found: Found,
        batches: dict[str, list[BatchPlace]],
        had_no_findings: bool,
    ) -> None:
        self._disk = disk
        self._had_no_findings = had_no_findings
        self._contents = found.contents
        self._pending = found.pending
        self._batches = batches

    @classmethod
    async def of(cls, disk: SimulatedDisk) -> "Judge":
        found = await serve_from(disk.kill())
        assert found.refusal is None
        assert not any(found.named.values())
        logs = [path for path in files_in(disk) if path.endswith(".log") and METADATA_LOG not in path]
        findings = (await verify(disk.kill(), DATA)).findings()
        assert [due or 0 for due in found.pending.values()] == [2 * LATER, LATER + 2]
        return cls(disk, found, {path: await batches_of(disk, path) for path in logs}, not findings)

    async def try_out(self, harm: Harm) -> None:
        harmed = self._disk.kill()
        harm.do(harmed)
        findings = (await verify(harmed, DATA)).findings()
        before = {path: await bytes_of(harmed, path) for path in files_in(harmed)}
        data = await bytes_of(self._disk, harm.path)
        harmless = is_harmless(harm, data) or ends_between_entries(harm, data)
        assert findings or not self._had_no_findings or harmless, "verify says nothing"
        used = harmed.kill()
        found = await serve_from(used, with_group=is_of_groups(harm))
        if found.refusal is not None:
            assert may_refuse(harm), found.refusal
        else:
            self._check_served(harm, found)
            _check_delivered(harm, found)
            self._check_pending(harm, found)
        await check_kept(before, used)

    def _check_served(self, harm: Harm, found: Found) -> None:
        assert found.contents.keys() == self._contents.keys()
        for place, values in self._contents.items():
            hit = self._hit_offsets(harm, place)
            unhit = {offset: value for offset, value in values.items() if offset not in hit}
            served = found.contents[place]
            assert unhit.items() <= served.items(), f"{place} lost {sorted(unhit.keys() - served.keys())}"
            assert served.items() <= values.items(), f"{place} shows what was never written"
            if served != values:
                assert found.named[place], f"{place} lost {sorted(values.keys() - served.keys())} without a word"

    def _check_pending(self, harm: Harm, found: Found) -> None:
        """G8: whatever happens to their index, they wait as the log says."""
        if not harm.path.endswith(".log"):
            assert found.pending == self._pending

    def _hit_offsets(self, harm: Harm, place: Place) -> set[int]:
        if f"/{place[0]}/{place[1]}/" not in harm.path:
            return set()
        return {
            offset
            for begin, end, first, next_ in self._batches.get(harm.path, [])
            if not harm.spares(begin, end)
            for offset in range(first, next_)
        }


def is_harmless(harm: Harm, data: bytes) -> bool:
    """In a file that people may read: the end of its last line, or the name of its checksum, which it may lack.

    What a group shows in offsets.json is read by people alone, and written anew all the time.
    """
    if harm.path.endswith("/offsets.json"):
        return True
    if not harm.path.endswith(".json"):
        return False
    name = data.index(CHECKSUM.encode())
    return harm.position == len(data) - 1 if harm.bit is None else name <= harm.position < name + len(CHECKSUM)


def is_of_groups(harm: Harm) -> bool:
    return harm.path.endswith(f"/{GROUPS}/{REGISTRY}") or f"/0/{LEDGERS}/" in harm.path


def ends_between_entries(harm: Harm, data: bytes) -> bool:
    """A journal or a delay index that was cut there looks as if it had never been longer."""
    if harm.path.endswith(f"/{DELAYS}"):
        size = harm.position - HEADER_SIZE
        return harm.bit is None and size > 0 and size % ENTRY_SIZE == 0
    ends, position = {0}, 0
    while is_of_groups(harm) and (frame := decode_frame(data, position)) is not None:
        position += frame.size
        ends.add(position)
    return harm.bit is None and harm.position > 0 and harm.position in ends


def _check_delivered(harm: Harm, found: Found) -> None:
    """G5: what was not done comes, and what was done may come again. Without its list no group is served."""
    if not is_of_groups(harm):
        return
    if isinstance(found.delivered, GoQueueError):
        assert harm.path.endswith(REGISTRY), found.delivered
        return
    readable = set(found.contents["orders", 0])
    acked = range(0, 2 * ACKED, 2)  # every other one is critical, and these come first
    missing = readable - found.delivered - set(acked)
    assert not missing, f"{sorted(missing)} were never delivered"


def may_refuse(harm: Harm) -> bool:
    """A format that may be a newer one's, and a list of topics behind whose damage a topic may hide (G13)."""
    return harm.path in (f"{DATA}/meta.json",) or f"/{METADATA_LOG}/" in harm.path


async def check_kept(before: dict[str, bytes], disk: SimulatedDisk) -> None:
    """G13: the bytes of every log are where they were, or were copied aside when they were cut."""
    after = {path: await bytes_of(disk, path) for path in files_in(disk)}
    kept = [data for path, data in after.items() if path.endswith((".torn", ".damaged"))]
    for path, data in before.items():
        if path.endswith(".log"):
            now = after.get(path, b"")
            rest = data[len(now) :]
            is_kept = (data.startswith(now) and rest in kept) or data in kept
            assert now.startswith(data) or is_kept, f"{path} lost bytes"
