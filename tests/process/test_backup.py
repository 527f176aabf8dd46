"""A backup of a broker process under load, which is killed in the middle of it; and one with a group at work."""

from collections.abc import Callable
from math import inf
from pathlib import Path
from random import Random

import trio
from trio import TASK_STATUS_IGNORED as IGNORED

import goqueue
from goqueue.cli.backup.copying import back_up, restore
from goqueue.storage.disk.disk import RealDisk
from goqueue.storage.verification.verify import NoProgress, verify
from tests.process.brokers import broker_process
from tests.process.histories import TOPIC, History, Publisher
from tests.process.test_broker import read_back, set_up

SECONDS_MAX = 60.0
PUBLISHERS = 3
LEASE_SECONDS = 3.0
FILLING = [f"filling {number:01000d}".encode() for number in range(4_000)]


class Begun:
    """A progress that tells when the snapshot is taken."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def begin(self, total: int) -> None:
        self._tell()

    def advance(self, done: int) -> None:
        pass


async def test_a_backup_under_load_outlives_kill_9_and_has_all_that_was_confirmed(tmp_path: Path) -> None:
    """G1, G3: what was confirmed before it began is in it, where it was said; the rest is no harm."""
    data, copy, restored = (tmp_path / name for name in ("data", "backup", "restored"))
    port = await set_up(data)
    history, random = History(), Random(0)
    with trio.fail_after(SECONDS_MAX):
        async with goqueue.connect(f"ws://127.0.0.1:{port}") as client, trio.open_nursery() as nursery:
            async with broker_process(data, port) as (process, _):
                async with client.producer(TOPIC) as producer:
                    for value, where in zip(FILLING, await producer.send_many(FILLING), strict=True):
                        history.begun.add(value)
                        history.confirmed[value] = where
                for number in range(PUBLISHERS):
                    publisher = Publisher(history, client, f"publisher-{number}", lambda: random.randrange(2))
                    nursery.start_soon(publisher.run, goqueue.Acks.ALL)
                await history.wait_for(20)
                confirmed = dict(history.confirmed)
                copied = trio.Event()

                async def copy_all() -> None:
                    await back_up(client, RealDisk(), str(copy), Begun(process.process.kill))
                    copied.set()

                nursery.start_soon(copy_all)
                assert await process.end() == -9
            async with broker_process(data, port):
                await copied.wait()
                nursery.cancel_scope.cancel()
        await restore(RealDisk(), str(copy), str(restored), NoProgress())
    for directory in (copy, restored):
        report = await verify(RealDisk(), str(directory))
        assert not report.damage()
        assert not report.warnings()
    history.confirmed = confirmed
    history.check(await read_back(restored))


async def ack_all(
    client: goqueue.Client, count: float = inf, task_status: trio.TaskStatus[set[tuple[int, int]]] = IGNORED
) -> set[tuple[int, int]]:
    """What came and was acked, until nothing comes for longer than a lease; or so many, and the rest is held."""
    acked: set[tuple[int, int]] = set()
    async with client.consumer(TOPIC, group="billing", visibility_timeout=LEASE_SECONDS) as consumer:
        while messages := await consumer.receive(100, timeout=LEASE_SECONDS + 2.0):
            await consumer.ack(messages)
            acked |= {(message.partition, message.offset) for message in messages}
            if len(acked) >= count:
                task_status.started(acked)
                await trio.sleep_forever()
    return acked


async def test_a_group_goes_on_from_a_backup_where_it_was(tmp_path: Path) -> None:
    """G5: what was acked before the backup began does not come again, and all else does."""
    data, copy, restored = (tmp_path / name for name in ("data", "backup", "restored"))
    port = await set_up(data)
    with trio.fail_after(SECONDS_MAX):
        async with broker_process(data, port), goqueue.connect(f"ws://127.0.0.1:{port}") as client:
            async with client.producer(TOPIC) as producer:
                places = {(each.partition, each.offset) for each in await producer.send_many(FILLING)}
            async with trio.open_nursery() as nursery:
                acked = await nursery.start(ack_all, client, len(FILLING) // 4)
                await back_up(client, RealDisk(), str(copy), NoProgress())
                nursery.cancel_scope.cancel()
        await restore(RealDisk(), str(copy), str(restored), NoProgress())
        async with broker_process(restored, port), goqueue.connect(f"ws://127.0.0.1:{port}") as client:
            assert await ack_all(client) == places - acked
            assert (await client.group("billing")).lag == 0
