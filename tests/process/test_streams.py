"""Streams with real processes: consumers and the broker are killed; nothing is skipped, and commits are kept."""

from pathlib import Path
from random import Random

import trio

import goqueue
from tests.process.brokers import broker_process
from tests.process.children import Child, child

TOPIC, GROUP, PARTITIONS, COUNT = "orders", "audit", 2, 200
SECONDS_MAX = 60.0


class Books:
    """For each partition: up to where messages were handed out, and what was committed last."""

    def __init__(self) -> None:
        self.handed = [-1] * PARTITIONS
        self.committed = [-1] * PARTITIONS
        self.repeats = 0

    def read(self, lines: list[str]) -> None:
        """What one life has said, from its beginning on."""
        before: list[int | None] = [None] * PARTITIONS
        for word, partition, offset in (line.split() for line in lines):
            number, at = int(partition), int(offset)
            if word == "committed":
                self.committed[number] = max(self.committed[number], at)
            else:
                self._hand(number, at, before[number])
                before[number] = at

    def _hand(self, partition: int, offset: int, before: int | None) -> None:
        assert offset > self.committed[partition], f"{offset} came after it was committed"
        assert offset <= self.handed[partition] + 1, f"something before {offset} was skipped"
        assert before is None or offset == before + 1, "within a life, one comes behind the other"
        self.repeats += offset <= self.handed[partition]
        self.handed[partition] = max(self.handed[partition], offset)

    @property
    def is_done(self) -> bool:
        return self.handed == [COUNT - 1] * PARTITIONS


async def fill(url: str) -> None:
    async with goqueue.connect(url) as client:
        await client.create_topic(TOPIC, partitions=PARTITIONS)
        async with client.producer(TOPIC) as producer:
            for partition in range(PARTITIONS):
                await producer.send_many([b"%d" % number for number in range(COUNT)], partition=partition)


async def hear(process: Child, lines: int) -> None:
    """Some more lines, if it has so many to say."""
    with trio.move_on_after(3):
        await process.listen(len(process.lines) + lines)


async def test_nothing_is_skipped_and_only_what_was_not_committed_comes_again(tmp_path: Path, kills: int) -> None:
    """G5, O10: the consumer and the broker are killed in turn; the broker also under a consumer that lives on."""
    random, books, lives = Random(0), Books(), 0
    async with broker_process(tmp_path) as (_, url):
        await fill(url)
    port = int(url.rpartition(":")[2])
    with trio.fail_after(SECONDS_MAX + 20 * kills):
        while lives < kills // 5 or not books.is_done:
            lives += 1
            async with child("tests.process.streamer", url, TOPIC, GROUP) as consumer:
                async with broker_process(tmp_path, port) as (broker, _):
                    await hear(consumer, random.randint(1, 250))
                    broker.process.kill()
                    await broker.end()
                async with broker_process(tmp_path, port):
                    await hear(consumer, random.randint(1, 250))
                    consumer.process.kill()
                    assert await consumer.end() == -9
            books.read(consumer.lines)
    assert books.is_done
