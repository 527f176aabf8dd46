"""A process that consumes as one member, says what it was handed, settles nothing, and can be killed at any time.

    python -m tests.process.member URL TOPIC GROUP MEMBER

It says `handed PARTITION OFFSET ATTEMPT` for each message. It dies with whoever listens to it.
"""

import sys

import trio

import goqueue
from tests.process.appender import say


async def consume(url: str, topic: str, group: str, member_id: str) -> None:
    async with goqueue.connect(url) as client, client.consumer(topic, group=group, member_id=member_id) as consumer:
        say("joined")
        while True:
            for message in await consumer.receive(max_messages=100):
                say("handed", message.partition, message.offset, message.attempt)


if __name__ == "__main__":
    address, name, in_group, who = sys.argv[1:]
    trio.run(consume, address, name, in_group, who)
