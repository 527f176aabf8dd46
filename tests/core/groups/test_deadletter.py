"""A dead letter keeps what it was and says where it comes from; on its way back it loses the story again."""

from collections import Counter

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.groups.deadletter import PREFIX, Story, dead_letter, one_record, redriven
from goqueue.core.groups.redrive import (
    LetterChoice,
    LetterCounts,
    Passed,
    PassedLetters,
    Receivers,
    RedriveChoice,
    destination_in,
    wanted_destination,
    why_none,
)
from goqueue.core.ledger.deadletters import Destination
from goqueue.core.records.batch import accept
from goqueue.core.records.record import (
    BROKER_HEADERS_SIZE_MAX,
    EXPIRES_AT_HEADER,
    FLAGS_FROM_BROKER,
    HEADERS_SIZE_MAX,
    MESSAGE_ID_HEADER,
    Flag,
    encode_record,
)
from goqueue.errors import BatchRefused
from goqueue.types import Priority

STORY = Story("orders", 2, 17, "billing", 3, 1_000, 2_000, "no such customer")
NAMES = st.text("abcXYZ09._-", min_size=1, max_size=200)
STORIES = st.builds(
    Story,
    topic=NAMES,
    partition=st.integers(0, 10_000),
    offset=st.integers(0, 2**63 - 1),
    group=NAMES,
    attempts=st.integers(0, 10**6),
    first_delivery=st.integers(0, 2**63 - 1),
    last_delivery=st.integers(0, 2**63 - 1),
    reason=st.text(max_size=1_000),
)


def test_the_message_stays_what_it_was() -> None:
    original = encode_record(
        5, 77, b"value", key=b"key", headers={"a": b"1"}, priority=Priority.LOW, flags=Flag.TOMBSTONE
    )
    letter = one_record(dead_letter(original, STORY, 0))
    assert (letter.key, letter.value, letter.timestamp, letter.priority) == (b"key", b"value", 77, Priority.LOW)
    assert letter.headers["a"] == b"1"
    assert letter.flags == Flag.HEADERS | Flag.TOMBSTONE


def test_the_headers_say_where_it_comes_from_and_why() -> None:
    letter = one_record(dead_letter(encode_record(0, 0, b""), STORY, 0))
    assert dict(letter.headers) == {
        "goqueue-dlq-topic": b"orders",
        "goqueue-dlq-partition": b"2",
        "goqueue-dlq-offset": b"17",
        "goqueue-dlq-group": b"billing",
        "goqueue-dlq-attempts": b"3",
        "goqueue-dlq-first-delivery": b"1000",
        "goqueue-dlq-last-delivery": b"2000",
        "goqueue-dlq-reason": b"no such customer",
    }


def test_what_the_broker_said_of_the_original_does_not_hold_for_the_copy() -> None:
    """An id would make it a repeat of itself, an expiry would hide it, a fired delay belongs to another log."""
    broker_headers = {MESSAGE_ID_HEADER: b"id", EXPIRES_AT_HEADER: bytes(8), "goqueue-for-group": b"billing"}
    original = encode_record(0, 0, b"", headers=broker_headers, flags=Flag.FIRED | Flag.FOR_ONE_GROUP)
    letter = one_record(dead_letter(original, STORY, 0))
    assert not set(broker_headers) & set(letter.headers)
    assert letter.flags == Flag.HEADERS


def test_the_place_in_the_batch_is_the_new_one() -> None:
    body = b"".join(dead_letter(encode_record(9, 0, b"v"), STORY, index) for index in range(3))
    assert accept(body, 3, allowed_flags=FLAGS_FROM_BROKER).record_count == 3
    with pytest.raises(BatchRefused):
        accept(body, 3)  # clients may not say such things


@given(STORIES)
def test_a_story_fits_beside_the_largest_headers_and_can_be_read_back(story: Story) -> None:
    own = {"a": bytes(HEADERS_SIZE_MAX - 10)}
    body = dead_letter(encode_record(0, 0, b"v", headers=own), story, 0)
    accept(body, 1, allowed_flags=FLAGS_FROM_BROKER)
    headers = one_record(body).headers
    packed = msgpack.packb({name: value for name, value in headers.items() if name.startswith(PREFIX)})
    assert len(packed) <= BROKER_HEADERS_SIZE_MAX
    again = Story.from_headers(headers)
    assert again is not None
    assert story.reason.encode(errors="replace").decode().startswith(again.reason)
    assert (again.topic, again.partition, again.offset, again.group) == (
        story.topic,
        story.partition,
        story.offset,
        story.group,
    )


def test_a_long_reason_is_cut_between_characters() -> None:
    story = Story("t", 0, 0, "g", 1, 0, 0, "ü" * 5_000)
    reason = story.to_headers()["goqueue-dlq-reason"]
    assert 3_500 < len(reason) < BROKER_HEADERS_SIZE_MAX
    assert set(reason.decode()) == {"ü"}


@pytest.mark.parametrize(
    "headers", [{}, {"goqueue-dlq-topic": b"orders"}, STORY.to_headers() | {PREFIX + "offset": b"x"}]
)
def test_what_has_no_whole_story_is_no_dead_letter(headers: dict[str, bytes]) -> None:
    assert Story.from_headers(headers) is None


def test_on_its_way_back_it_loses_the_story() -> None:
    letter = dead_letter(encode_record(0, 7, b"v", key=b"k", headers={"a": b"1"}, priority=1), STORY, 0)
    back = one_record(redriven(letter, None, 0))
    assert (back.key, back.value, dict(back.headers), back.priority, back.timestamp) == (
        b"k",
        b"v",
        {"a": b"1"},
        1,
        7,
    )
    assert back.flags == Flag.HEADERS
    for_one = one_record(redriven(letter, "billing", 0))
    assert dict(for_one.headers) == {"a": b"1", "goqueue-for-group": b"billing"}
    assert for_one.flags == Flag.HEADERS | Flag.FOR_ONE_GROUP


@pytest.mark.parametrize(
    ("reason", "destination"),
    [("group", Destination()), ("all", Destination(is_for_all=True)), ("to:x", Destination("x", True))],
)
def test_a_redrive_that_an_older_goqueue_began_goes_where_it_was_to_go(
    reason: str, destination: Destination
) -> None:
    assert destination_in(reason) == destination


def test_only_those_are_chosen_that_fit_and_that_somebody_can_get() -> None:
    def judged(
        which: LetterChoice, story: Story | None = STORY, *, topic: str = "orders", group: str = "billing"
    ) -> Passed | None:
        return RedriveChoice(Destination(), which, Receivers({topic, "x"}, {group})).judge(5, story)

    assert judged(LetterChoice()) is None
    assert judged(LetterChoice("billing", {5}, "customer")) is None
    assert judged(LetterChoice("audit")) is Passed.OTHER_GROUP
    assert judged(LetterChoice(offsets={6})) is Passed.NOT_MATCHING
    assert judged(LetterChoice(reason="timeout")) is Passed.NOT_MATCHING
    assert judged(LetterChoice(), None) is Passed.NO_LETTER
    assert judged(LetterChoice("billing"), None) is Passed.NO_LETTER
    assert judged(LetterChoice(), group="audit") is Passed.NO_GROUP
    assert judged(LetterChoice(), topic="hospital") is Passed.NO_TOPIC
    for wanted in (wanted_destination("x", False), wanted_destination(None, True)):
        assert RedriveChoice(wanted, LetterChoice(), Receivers({"orders", "x"}, set())).judge(5, STORY) is None


def test_what_a_program_published_can_be_dismissed_unless_a_group_or_a_reason_is_asked_for() -> None:
    assert LetterChoice(offsets={5}).judge(5, None) is None
    assert LetterChoice(reason="x").judge(5, None) is Passed.NOT_MATCHING
    assert LetterChoice("billing").judge(5, None) is Passed.NO_LETTER


AT_NOON = 1_795_003_200_000_000


@pytest.mark.parametrize(
    ("passed", "there", "why"),
    [
        ({}, LetterCounts(), "there are no dead letters"),
        (
            {},
            LetterCounts(0, 3, 0, AT_NOON),
            "no dead letter waits: 3 were sent back, last 3 min 5 s ago",
        ),
        (
            {},
            LetterCounts(0, 1, 2, None, AT_NOON),
            "no dead letter waits: 1 was sent back and 2 were dismissed, last 3 min 5 s ago",
        ),
        ({}, LetterCounts(2), "none was asked for"),
        (
            {Passed.OTHER_GROUP: 1},
            LetterCounts(1),
            "1 dead letter was looked at: 1 belongs to another group (audit)",
        ),
        (
            {Passed.NO_GROUP: 1, Passed.NOT_MATCHING: 2},
            LetterCounts(9),
            "3 dead letters were looked at: 2 do not match what was chosen; the group that gave 1 up does not "
            "exist; choose all groups, or another topic",
        ),
        (
            {Passed.NO_TOPIC: 2, Passed.NO_LETTER: 1},
            LetterCounts(9),
            "3 dead letters were looked at: 1 was published by a program, not given up by a group; the topic "
            "that 2 are to go to does not exist",
        ),
        (
            {Passed.NOT_MATCHING: 4},
            LetterCounts(4, 6, 2, AT_NOON),
            "4 dead letters were looked at: 4 do not match what was chosen; others were not: 6 were sent back, "
            "last 3 min 5 s ago and 2 were dismissed",
        ),
        (
            {Passed.NOT_MATCHING: 12},  # as with `again`: those that were decided upon are looked at, too
            LetterCounts(4, 6, 2, AT_NOON),
            "12 dead letters were looked at: 12 do not match what was chosen",
        ),
    ],
)
def test_zero_says_why(passed: dict[Passed, int], there: LetterCounts, why: str) -> None:
    assert why_none(PassedLetters(Counter(passed), {"audit"}), there, AT_NOON + 185_000_000) == why
