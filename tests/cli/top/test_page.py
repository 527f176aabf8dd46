"""The page of `top`, on a screen of any size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.top.page import age, fields_of, lines_of, page_of
from goqueue.cli.top.rates import Figures, figures
from tests.cli.top.looks import group, look, topic

COUNTERS = {
    "connections.open": 12,
    "memory.bytes": 120 * 1024**2,
    "disk.free_bytes": 3 * 1024**3,
    "disk.total_bytes": 4 * 1024**3,
    "fsync.p50_ms": 0.25,
    "loop.stalls_20_ms": 3,
}


def busy(groups: int = 30, topics: int = 30) -> Figures:
    names = [f"group-{number:02}" for number in range(groups)]
    before = look(1.0, {"published.messages": 0}, topics=[topic(f"topic-{number}") for number in range(topics)])
    after = look(
        2.0,
        {**COUNTERS, "published.messages": 12_345},
        status="ready",
        degraded=["dead_letters"],
        topics=[topic(f"topic-{number}", 1000 - number, 1024) for number in range(topics)],
        groups=[group(name, lag=1_000 - at, oldest_seconds=75.0) for at, name in enumerate(names)],
    )
    return figures(before, after)


def test_all_of_it_on_a_usual_screen() -> None:
    texts = [line.text for line in lines_of(page_of(busy(2, 2)), "goqueue top", 100, 40)]
    assert texts == [
        "goqueue top",
        "messages/s  published 12,345  delivered –  acked –  read –  refused –",
        "broker      connections 12  requests/s –  memory 120MiB  disk 3GiB free of 4GiB",
        "fsync       rounds/s –  p50 0.2 ms  p99 –  max –",
        "loop        stalls 3 > 20 ms, – > 100 ms, – > 1000 ms  max –",
        "health      ready, degraded: dead_letters",
        "",
        "GROUP       LAG  DONE/S  IN FLIGHT      OLDEST  RETRIES  MEMBERS  STATE",
        "group-00  1,000       –          0  1 min 15 s        0        1  stable",
        "group-01    999       –          0  1 min 15 s        0        1  stable",
        "",
        "TOPIC    WRITTEN/S  SIZE  PARTITIONS",
        "topic-0      1,000  1KiB           3",
        "topic-1        999  1KiB           3",
    ]


@given(st.integers(1, 150), st.integers(1, 60), st.integers(0, 40), st.integers(0, 40))
def test_it_fits_every_screen(width: int, height: int, groups: int, topics: int) -> None:
    lines = lines_of(page_of(busy(groups, topics)), "goqueue top", width, height)
    assert len(lines) <= height
    assert all(len(line.text) <= width for line in lines)
    assert lines[0].text == "goqueue top"[:width]


def test_what_has_no_room_is_counted() -> None:
    texts = [line.text for line in lines_of(page_of(busy()), "goqueue top", 80, 24)]
    assert len(texts) == 24
    assert [text for text in texts if text.startswith("and ")] == ["and 24 more", "and 24 more"]


def test_what_the_groups_do_not_need_the_topics_get() -> None:
    texts = [line.text for line in lines_of(page_of(busy(1, 30)), "goqueue top", 80, 24)]
    assert sum(text.startswith("topic-") for text in texts) == 12


def test_on_a_narrow_screen_the_last_columns_give_way_and_names_are_shortened() -> None:
    [title, row] = [line.text for line in lines_of(page_of(busy(1, 0)), "", 20, 40)][7:9]
    assert title.split() == ["GROUP", "LAG"]
    assert row.split() == ["group-00", "1,000"]
    long = figures(None, look(1.0, groups=[group("g" * 100)]))
    assert [line.text for line in lines_of(page_of(long), "", 30, 40)][8].startswith("g" * 16 + "…  ")


def test_programs_get_all_of_it() -> None:
    fields = fields_of(busy(1, 1))
    assert fields["rates"]["published"] == 12_345
    assert fields["groups"][0] | {"lag": 1_000, "oldest_seconds": 75.0} == fields["groups"][0]
    assert fields["topics"][0]["per_second"] == 1_000
    assert (fields["status"], fields["degraded"]) == ("ready", ["dead_letters"])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (59.9, "59.9 s"), (60, "1 min 0 s"), (3_725, "1 h 2 min"), (90_000, "1 d 1 h")],
)
def test_an_age_has_two_units_at_most(seconds: float, text: str) -> None:
    assert age(seconds) == text
