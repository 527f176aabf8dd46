"""Workers as real processes, killed in the middle of a message while they hold others."""

from pathlib import Path

import pytest
import trio

import goqueue
from tests.process.brokers import broker_process
from tests.process.children import Child, child
from tests.process.histories import TOPIC

GROUP = "billing"
SECONDS_MAX = 60.0
COUNT, POISON_AT = 200, 50
VISIBILITY = "1.0"


@pytest.mark.parametrize("kills_the_broker", [False, True])
async def test_a_handler_that_kills_its_process_is_counted_and_what_the_process_only_held_is_not(
    tmp_path: Path, kills_the_broker: bool
) -> None:
    """SPEC §6. The broker knows what has begun, also when it is killed itself."""
    values = [b"poison" if number == POISON_AT else b"%d" % number for number in range(COUNT)]
    with trio.fail_after(SECONDS_MAX):
        async with broker_process(tmp_path) as (broker, url):
            dying = await killed_by_its_handler(url, values)
            rest = [] if kills_the_broker else await handled_by_the_next(url)
            broker.process.kill()
            await broker.end()
        if kills_the_broker:
            async with broker_process(tmp_path) as (_, url):
                rest = await handled_by_the_next(url)
    first = [line.split()[1] for line in dying.lines]
    assert first == [value.decode() for value in values[: POISON_AT + 1]]
    attempts = {value: int(attempt) for _, value, attempt in map(str.split, rest)}
    assert attempts.pop("poison") == 2
    unacked = set(attempts) & set(first)
    assert len(unacked) <= 2, "the acks that were under way, at most"
    assert {attempt for value, attempt in attempts.items() if value not in unacked} == {1}
    assert len(attempts) - len(unacked) == COUNT - POISON_AT - 1


async def killed_by_its_handler(url: str, values: list[bytes]) -> Child:
    async with goqueue.connect(url) as client:
        await client.create_topic(TOPIC, partitions=1)
        async with client.producer(TOPIC) as producer:
            await producer.send_many(values)
    async with child("tests.process.worker", url, TOPIC, GROUP, "1", VISIBILITY) as dying:
        await dying.listen(POISON_AT + 1)
        assert await dying.end() == -9
    return dying


async def handled_by_the_next(url: str) -> list[str]:
    """All that is left; its lines wait in the pipe meanwhile."""
    async with (
        goqueue.connect(url) as client,
        child("tests.process.worker", url, TOPIC, GROUP, "1", VISIBILITY) as it,
    ):
        while (await client.group(GROUP)).lag:  # noqa: ASYNC110
            await trio.sleep(0.1)
        it.process.kill()
        await it.end()
    return it.lines
