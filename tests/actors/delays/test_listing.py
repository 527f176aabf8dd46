"""A page of delayed messages: keys and priorities are those of the originals, however large they are."""

from random import Random

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from goqueue.actors.delays import listing as delaylisting
from goqueue.actors.delays.listing import KEY_BYTES_MAX, PIECE_BYTES_MAX, PIECES_MAX, delayed_views
from goqueue.actors.delays.requests import DelayedView
from goqueue.config import LogConfig
from goqueue.core.delays.pending import DelayChange, DelayState
from goqueue.storage.log.log import Log
from goqueue.testing.disk import SimulatedDisk
from tests.storage.logs import batch, mounted, open_log, publish

LATER = 2**50
MEGABYTE = 1024 * 1024
LARGE = LogConfig(segment_bytes=64 * MEGABYTE)


def pending(count: int) -> list[DelayChange]:
    return [DelayChange(DelayState.PENDING, offset, LATER + offset, offset) for offset in range(count)]


def as_published(views: list[DelayedView]) -> list[tuple[int, bytes | None, int]]:
    return [(view.offset, view.key, int(view.priority)) for view in views]


async def all_pages(log: Log, changes: list[DelayChange]) -> list[list[DelayedView]]:
    """As a client reads them: until a page is empty."""
    pages, at = list[list[DelayedView]](), 0
    while page := await delayed_views(log, changes[at:]):
        pages.append(page)
        at += len(page)
    return pages


async def test_large_messages_are_listed_with_their_keys_and_priorities(autojump_clock: MockClock) -> None:
    count = 2 * PIECE_BYTES_MAX // MEGABYTE + 3
    async with mounted(SimulatedDisk(Random(0))) as volume:
        log = await open_log(volume, LARGE)
        for number in range(count):
            await publish(log, batch(bytes(MEGABYTE), key=b"k%d" % number, priority=number % 5, due=LATER))
        views = await delayed_views(log, pending(count))
        assert as_published(views) == [(number, b"k%d" % number, number % 5) for number in range(count)]
        log.abandon()


async def test_a_page_ends_where_its_keys_are_long_enough(autojump_clock: MockClock) -> None:
    """Also within one batch."""
    key = b"k" * 65_000
    count = 3 * KEY_BYTES_MAX // len(key)
    async with mounted(SimulatedDisk(Random(0))) as volume:
        log = await open_log(volume, LARGE)
        await publish(log, batch(*[b"v"] * count, key=key, due=LATER))
        pages = await all_pages(log, pending(count))
        assert [view.offset for page in pages for view in page] == list(range(count))
        assert {view.key for page in pages for view in page} == {key}
        assert max(sum(len(view.key or b"") for view in page) for page in pages) <= KEY_BYTES_MAX
        assert len(pages) == 3
        log.abandon()


async def test_a_page_ends_when_much_was_read_for_it(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delaylisting, "PIECE_BYTES_MAX", 1_000)
    async with mounted(SimulatedDisk(Random(0))) as volume:
        log = await open_log(volume)
        for _ in range(PIECES_MAX + 5):
            await publish(log, batch(bytes(1_200), due=LATER))
        pages = await all_pages(log, pending(PIECES_MAX + 5))
        assert [len(page) for page in pages] == [PIECES_MAX, 5]
        log.abandon()


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 300), st.integers(0, 4), st.integers(0, 500)), min_size=1, max_size=6),
        max_size=12,
    )
)
def test_pages_together_are_what_was_published(batches: list[list[tuple[int, int, int]]]) -> None:
    """Whatever the sizes of keys and values are, with one priority for each batch."""
    published: list[tuple[int, bytes | None, int]] = []

    async def check() -> None:
        async with mounted(SimulatedDisk(Random(0))) as volume:
            log = await open_log(volume)
            for records in batches:
                keys = [bytes([65 + size % 26]) * size for size, _, _ in records]
                priority = records[0][1]
                await publish(
                    log,
                    batch(*[bytes(size) for *_, size in records], keys=keys, priority=priority, due=LATER),
                )
                published.extend([(len(published) + n, key or None, priority) for n, key in enumerate(keys)])
            pages = await all_pages(log, pending(len(published)))
            assert as_published([view for page in pages for view in page]) == published
            log.abandon()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(delaylisting, "PIECE_BYTES_MAX", 900)
        patched.setattr(delaylisting, "KEY_BYTES_MAX", 500)
        trio.run(check)
