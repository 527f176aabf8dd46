"""A process that reads a stream, says what it was handed and what it has committed, and can be killed at any time.

    python -m tests.process.streamer URL TOPIC GROUP

It says `handed PARTITION OFFSET` for each message and, after some, `committed PARTITION OFFSET` for the last of
each partition once the commit was answered. It dies with whoever listens to it.
"""

import sys

import trio

import goqueue
from tests.process.appender import say

COMMIT_AFTER = 7


async def follow(url: str, topic: str, group: str) -> None:
    async with (
        goqueue.connect(url) as client,
        client.consumer(topic, group=group, mode="stream", auto_commit=False, member_id="streamer") as consumer,
    ):
        last: dict[int, int] = {}
        async for message in consumer:
            say("handed", message.partition, message.offset)
            last[message.partition] = message.offset
            await trio.sleep(0.001)
            if message.offset % COMMIT_AFTER == 0:
                await consumer.commit()
                for partition, offset in last.items():
                    say("committed", partition, offset)
                last.clear()


if __name__ == "__main__":
    address, name, in_group = sys.argv[1:]
    trio.run(follow, address, name, in_group)
