"""Why nothing is delivered: each reason has its sentence, with figures, and whatever is the case, there is one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.why.facts import (
    GroupFacts,
    KeyBacklog,
    LaneWait,
    LastDelivery,
    LastMessage,
    MemberFacts,
    OldestLease,
    PartitionFacts,
)
from goqueue.core.why.rules import RULES, explain
from goqueue.core.why.words import KEY_LENGTH_MAX, shown_key
from goqueue.errors import UnknownMember

ORDERS = frozenset({"orders"})
ANN = MemberFacts("ann", ("orders",), ORDERS, member_for=60.0, asked_ago=0.0)
BOB = replace(ANN, id="bob")
LOST = replace(ANN, is_connected=False, silent_for=4.0)
IDLE = PartitionFacts("orders", 0, owner="ann", last_message=LastMessage("2026-11-16T08:00:00.000Z", 95.0))
LAST = LastDelivery("ann", 0.2)


def group(*partitions: PartitionFacts, members: tuple[MemberFacts, ...] = (ANN,)) -> GroupFacts:
    return GroupFacts("billing", members, partitions or (IDLE,))


def paused(*partitions: PartitionFacts, members: tuple[MemberFacts, ...] = (ANN, BOB)) -> GroupFacts:
    return replace(group(*partitions, members=members), rebalancing_for=12.34, letting_go=("ann",))


def ready(count: int, number: int = 0, owner: str | None = "ann") -> PartitionFacts:
    return replace(IDLE, partition=number, owner=owner, ready=count)


def stream(*partitions: PartitionFacts, members: tuple[MemberFacts, ...] = (ANN, BOB)) -> GroupFacts:
    return replace(group(*partitions, members=members), is_stream=True)


LEASED = replace(IDLE, in_flight=7, oldest_lease=OldestLease("ann", 12.4, 17.6))
EXAMPLES: dict[str, tuple[GroupFacts, str, str]] = {
    "nobody is here": (
        group(ready(10), replace(ready(1), in_flight=1), IDLE, members=()),
        "no_members",
        "the group has no members: 12 messages wait on 2 partitions",
    ),
    "nobody is here, and one waits": (
        group(replace(IDLE, waiting=1), members=()),
        "no_members",
        "the group has no members: 1 message waits on 1 partition",
    ),
    "segments stay for a group": (
        group(replace(ready(10), kept_segments=2, kept_bytes=1_500), replace(IDLE, partition=1), members=()),
        "no_members",
        "the group has no members: 10 messages wait on 1 partition; 2 segments of orders/0 (1,500 bytes) stay "
        "until the group is done with them (retention=acked)",
    ),
    "one segment stays for a group": (
        group(replace(IDLE, kept_segments=1, kept_bytes=700), members=()),
        "no_members",
        "the group has no members, and nothing waits for it; 1 segment of orders/0 (700 bytes) stays until "
        "the group is done with it (retention=acked)",
    ),
    "nobody is here, and nothing waits": (
        group(members=()),
        "no_members",
        "the group has no members, and nothing waits for it",
    ),
    "no topic is there": (
        GroupFacts("billing", (MemberFacts("ann", ("orders",)), MemberFacts("bob", ("bills-*",)))),
        "no_topic",
        "there is no topic for any member to read: none is or fits bills-*, orders",
    ),
    "no topic is there for one of them": (
        group(members=(ANN, MemberFacts("bob", ("bills", "cats", "dogs", "emus", "foxes")))).of("bob"),
        "no_topic",
        "there is no topic for bob to read: none is or fits bills, cats, dogs and 2 more",
    ),
    "a topic that has just come": (
        GroupFacts("billing", (ANN,)),
        "not_begun",
        "the group has not begun to read orders yet",
    ),
    "a rebalance": (
        paused(ready(3, owner=None), ready(1, 1, owner=None)),
        "rebalancing",
        "paused by a rebalance for 12 s, waiting for ann to let go: 4 messages wait on 2 partitions",
    ),
    "a rebalance in which one has nothing yet": (
        paused(ready(3)).of("bob"),
        "rebalancing",
        "paused by a rebalance for 12 s, waiting for ann to let go",
    ),
    "a rebalance beside which others go on": (
        paused(replace(ready(3), last_delivery=LAST), ready(1, 1, owner=None)),
        "delivering",
        "messages are being delivered: the last 0.2 s ago to ann, 0 in flight, lag 4",
    ),
    "more members than partitions": (
        group(ready(5), members=(ANN, BOB)).of("bob"),
        "no_partition",
        "bob has no partition: 2 members share 1 partition",
    ),
    "all is well": (
        group(replace(ready(1_500), in_flight=500, last_delivery=LAST)),
        "delivering",
        "messages are being delivered: the last 0.2 s ago to ann, 500 in flight, lag 2,000",
    ),
    "all is well, but a low priority waits": (
        group(replace(ready(1_500), last_delivery=LAST, lane_wait=LaneWait("low", 12.0))),
        "delivering",
        "messages are being delivered: the last 0.2 s ago to ann, 0 in flight, lag 1,500; low messages of orders/0 "
        "wait for 12 s while other priorities are served, and for 30 s at most",
    ),
    "all is well, but for one": (
        group(replace(ready(1), last_delivery=LAST), replace(IDLE, partition=1, trouble="gone")),
        "delivering",
        "messages are being delivered: the last 0.2 s ago to ann, 0 in flight, lag 1; 1 partition does not answer",
    ),
    "a stream before damage": (
        replace(group(replace(ready(5), damaged=3, damaged_at=4_711, stands_before_damage=True)), is_stream=True),
        "damage_ahead",
        "3 messages of orders/0 are damaged, from offset 4711 on; "
        "restore the file, or give them up with `goqueue group skip billing orders/0 FROM-TO`",
    ),
    "a stream before damage, whose owner has just come there": (
        stream(
            replace(
                ready(5),
                fetched=4,
                damaged=1,
                damaged_at=4,
                stands_before_damage=True,
                last_delivery=LAST,
                asked_ago=0,
            )
        ),
        "damage_ahead",
        "1 message of orders/0 is damaged, from offset 4 on; "
        "restore the file, or give it up with `goqueue group skip billing orders/0 FROM-TO`",
    ),
    "a stream that is read": (
        stream(replace(ready(1_500), fetched=500, last_delivery=LAST)),
        "delivering",
        "messages are being fetched: the last 0.2 s ago by ann, 500 not committed yet, lag 2,000",
    ),
    "a stream whose owner asks": (
        stream(replace(ready(3), asked_ago=0.0)),
        "about_to_deliver",
        "messages are being fetched: 0 not committed yet, lag 3",
    ),
    "a stream whose owner has gone away": (
        stream(replace(ready(3), fetched=2, asked_ago=2.0), members=(replace(ANN, is_connected=False),)),
        "connection_lost",
        "the connection of ann is lost, and it was last heard of 0.0 s ago: 3 messages wait for it",
    ),
    "a stream whose program is busy": (
        stream(replace(ready(3), fetched=1, asked_ago=45.0), members=(replace(ANN, asked_ago=45.0),)),
        "busy",
        "ann has fetched 1 message that is not committed, and has not asked for more for 45 s (its program is "
        "busy, or has paused it): 3 messages wait for it",
    ),
    "a stream whose owner does not ask": (
        stream(ready(3), members=(replace(ANN, asked_ago=None),)),
        "not_asking",
        "ann has not asked for messages since it joined 60 s ago: 3 messages wait for it",
    ),
    "a stream of which one partition is paused": (
        stream(replace(ready(3), asked_ago=45.0, fetched=5), replace(IDLE, partition=1, asked_ago=0.0)),
        "not_asking",
        "ann asks for messages, but not for those of orders/0 for 45 s (its program has paused it): 3 messages "
        "wait for it",
    ),
    "a stream that was fetched": (
        stream(replace(IDLE, fetched=7, asked_ago=0.0), replace(IDLE, partition=1, owner="bob", fetched=1)),
        "uncommitted",
        "everything that is there was fetched by ann, bob and is not committed yet: 8 messages",
    ),
    "a stream that was fetched, and is asked for no more": (
        stream(replace(IDLE, fetched=1, asked_ago=130.0)),
        "uncommitted",
        "everything that is there was fetched by ann and is not committed yet: 1 message; nobody has asked for "
        "more of orders/0 for 2 min 10 s (its program is busy, or has paused it)",
    ),
    "a stream whose owner is lost with what it has fetched": (
        stream(replace(IDLE, fetched=20, asked_ago=4.0), members=(LOST,)),
        "uncommitted",
        "everything that is there was fetched by ann and is not committed yet: 20 messages; the connection of ann "
        "is lost, and it was last heard of 4.0 s ago",
    ),
    "a stream of which one owner is lost, and one is busy": (
        stream(
            replace(IDLE, fetched=2, asked_ago=4.0),
            replace(IDLE, partition=1, owner="bob", fetched=1, asked_ago=30.0),
            members=(LOST, BOB),
        ),
        "uncommitted",
        "everything that is there was fetched by ann, bob and is not committed yet: 3 messages; the connection of "
        "ann is lost, and it was last heard of 4.0 s ago; nobody has asked for more of orders/1 for 30 s (its "
        "program is busy, or has paused it)",
    ),
    "a stream that changes hands": (
        replace(paused(replace(IDLE, owner=None, fetched=20), IDLE), is_stream=True),
        "rebalancing",
        "paused by a rebalance for 12 s, waiting for ann to let go: 20 messages wait on 1 partition",
    ),
    "a stream without members": (
        stream(replace(IDLE, owner=None, ready=3), members=()),
        "no_members",
        "the group has no members: 3 messages wait on 1 partition",
    ),
    "a queue group goes round damage": (
        group(replace(ready(5), damaged=3, damaged_at=4_711, stands_before_damage=True)),
        "about_to_deliver",
        "messages are being delivered: 0 in flight, lag 5",
    ),
    "one that is delivered alone waits": (
        group(replace(ready(1), alone_waits=True, in_flight=20), members=(replace(ANN, holds=20),)),
        "alone",
        "a message of orders/0 must be delivered alone, and waits until ann has settled the 20 messages that it "
        "holds",
    ),
    "one that is delivered alone is held": (
        group(replace(ready(9), in_flight=1), members=(replace(ANN, holds=1, holds_alone=True),)),
        "alone",
        "ann holds a message that was delivered alone, and is given nothing else until it has settled it: "
        "9 messages wait for it",
    ),
    "a lost connection": (
        group(ready(2), members=(replace(ANN, is_connected=False, silent_for=3.0),)),
        "connection_lost",
        "the connection of ann is lost, and it was last heard of 3.0 s ago: 2 messages wait for it",
    ),
    "a busy program": (
        group(replace(ready(2), in_flight=400), members=(replace(ANN, holds=4_000, asked_ago=45.0),)),
        "busy",
        "ann holds 4,000 messages unsettled and has not asked for more for 45 s (its credit is used up, or its "
        "program is busy): 2 messages wait for it",
    ),
    "a program that has never asked": (
        group(ready(1), members=(replace(ANN, asked_ago=None),)),
        "not_asking",
        "ann has not asked for messages since it joined 60 s ago: 1 message waits for it",
    ),
    "of several who do not ask, the one with the most": (
        group(ready(1), ready(8, 1, "bob"), members=(replace(ANN, asked_ago=5.0), replace(BOB, asked_ago=2.5))),
        "not_asking",
        "bob has not asked for messages for 2.5 s: 8 messages wait for it",
    ),
    "who asks is given": (
        group(ready(3)),
        "about_to_deliver",
        "messages are being delivered: 0 in flight, lag 3",
    ),
    "a partition that is down": (
        group(IDLE, replace(IDLE, partition=1, trouble="it hangs"), replace(IDLE, partition=2, trouble="no")),
        "no_answer",
        "partition orders/1 does not answer, and 1 other does not either: it hangs",
    ),
    "what is not on disk": (
        group(replace(IDLE, unsynced=1)),
        "unsynced",
        "1 message is published and not on disk yet",
    ),
    "behind a key": (
        group(
            replace(LEASED, behind_keys=20, longest_backlog=KeyBacklog("'door 1'", 4_711, 4)),
            replace(IDLE, partition=1, behind_keys=10, longest_backlog=KeyBacklog("'door 2'", 5, 9)),
        ),
        "behind_keys",
        "30 messages wait behind earlier ones of the same key, 9 of them behind key 'door 2' (orders/1 at offset "
        "5), 7 in flight, the oldest lease held by ann for 12 s, ends in 18 s",
    ),
    "behind the look-ahead": (
        group(replace(IDLE, behind_keys=10_000, not_looked_at=500, waiting=1, next_retry_in=3.0)),
        "behind_keys",
        "10,000 messages wait behind earlier ones of the same key; 1 message waits for its retry, the next in 3.0 s"
        "; 500 more of orders/0 are not looked at while so many wait",
    ),
    "everything is in flight": (
        group(LEASED),
        "in_flight",
        "everything that is there is in flight: 7 messages, the oldest lease held by ann for 12 s, ends in 18 s",
    ),
    "everything is in flight, or waits": (
        group(LEASED, replace(IDLE, partition=1, waiting=1, next_retry_in=0.95)),
        "in_flight",
        "everything that is there is in flight: 7 messages, the oldest lease held by ann for 12 s, ends in 18 s; "
        "1 message waits for its retry, the next in 0.9 s",
    ),
    "retries": (
        group(replace(IDLE, waiting=2, next_retry_in=59.7), replace(IDLE, waiting=1, next_retry_in=3.0)),
        "retries",
        "3 messages wait for their retry, the next in 3.0 s",
    ),
    "dead letters": (
        group(replace(IDLE, leaving=2)),
        "dead_letters",
        "2 messages are on the way to the dead-letter topic",
    ),
    "nothing but damage": (
        group(replace(IDLE, damaged=1, damaged_at=9, damaged_file="0.log")),
        "only_damage",
        "nothing else is left: 1 message of orders/0 is damaged, from offset 9 on in 0.log; "
        "restore the file, or give it up with `goqueue group skip billing orders/0 FROM-TO`",
    ),
    "a topic that nobody wants any more": (
        group(IDLE, replace(ready(4, owner=None), topic="bills")),
        "unread",
        "4 messages of bills wait, which no member reads",
    ),
    "all that is there is delayed": (
        group(replace(IDLE, delayed=1_000, next_due_in=75.0), replace(IDLE, delayed=2, next_due_in=42.0)),
        "delayed",
        "nothing is left to deliver for now: 1,002 messages wait for their time, the next in 42 s",
    ),
    "all that is there for one member is delayed": (
        group(replace(IDLE, delayed=1, next_due_in=7_260.0), ready(2, 2, "bob"), members=(ANN, BOB)).of("ann"),
        "delayed",
        "nothing is left to deliver to ann for now: 1 message on its 1 partition waits for its time, the next in "
        "2 h 1 min",
    ),
    "nobody is here, and all that is there is delayed": (
        group(replace(IDLE, delayed=3, next_due_in=42.0), members=()),
        "no_members",
        "the group has no members, and nothing waits for it but 3 delayed messages",
    ),
    "nothing is left": (
        group(replace(IDLE, last_message=LastMessage("long ago", 200_000.0)), IDLE),
        "nothing_left",
        "nothing is left to deliver: the last message was published at 2026-11-16T08:00:00.000Z, 95 s ago",
    ),
    "nothing is left for one member": (
        group(IDLE, replace(IDLE, partition=1), ready(2, 2, "bob"), members=(ANN, BOB)).of("ann"),
        "nothing_left",
        "nothing is left to deliver to ann: the last message on its 2 partitions was published at "
        "2026-11-16T08:00:00.000Z, 95 s ago",
    ),
    "nothing was ever there for one member": (
        group(PartitionFacts("orders", 0, owner="ann")).of("ann"),
        "nothing_left",
        "nothing is left to deliver to ann: nothing was ever published on its 1 partition",
    ),
    "nothing was ever there": (
        group(PartitionFacts("orders", 0, owner="ann")),
        "nothing_left",
        "nothing is left to deliver: nothing was ever published",
    ),
}


@pytest.mark.parametrize("case", EXAMPLES)
def test_each_reason_has_its_sentence(case: str) -> None:
    facts, reason, text = EXAMPLES[case]
    found = explain(facts)
    assert (found.reason, found.text) == (reason, text)


def test_every_reason_has_an_example() -> None:
    assert {reason for _, reason, _ in EXAMPLES.values()} == set(RULES)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (119.0, "119 s"),
        (121.0, "2 min 1 s"),
        (7_199.0, "119 min 59 s"),
        (7_260.0, "2 h 1 min"),
        (200_000.0, "2 days 7 h"),
    ],
)
def test_spans_are_as_exact_as_one_can_act_on(seconds: float, text: str) -> None:
    found = explain(group(replace(IDLE, last_message=LastMessage("T", seconds))))
    assert found.text.endswith(f"at T, {text} ago")


def test_in_a_shared_group_everybody_takes_from_everywhere() -> None:
    shared = replace(group(ready(3, owner=None), members=(replace(ANN, asked_ago=9.0), BOB)), is_shared=True)
    assert explain(shared).reason == "about_to_deliver", "bob asks"
    assert explain(shared.of("ann")).text == "ann has not asked for messages for 9.0 s: 3 messages wait for it"


def test_of_one_member_only_its_partitions_count() -> None:
    facts = group(ready(3), replace(LEASED, partition=1, owner="bob"), members=(replace(ANN, asked_ago=2.0), BOB))
    assert explain(facts.of("ann")).reason == "not_asking"
    assert explain(facts.of("bob")).reason == "in_flight"
    assert facts.of("bob").figures()["members"] == 2


def test_who_is_no_member_is_an_error() -> None:
    with pytest.raises(UnknownMember, match="'zoe' is not in group billing"):
        group().of("zoe")


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (b"door 1", "'door 1'"),
        ("straße".encode(), "'straße'"),
        (b"\x00\xff", "'\\x00\\xff'"),
        (b"a\nb'c", "'a\\nb'c'"),
        (b"k" * KEY_LENGTH_MAX, f"'{'k' * KEY_LENGTH_MAX}'"),
        (b"k" * 60_000, f"'{'k' * KEY_LENGTH_MAX}…'"),
        ("ä".encode() * 60_000, f"'{'ä' * KEY_LENGTH_MAX}…'"),
    ],
)
def test_keys_are_escaped_and_shortened(key: bytes, shown: str) -> None:
    assert shown_key(key) == shown


# Whatever is the case


spans = st.floats(0, 1e7)
counts = st.integers(0, 10**12) | st.just(0)
names = st.sampled_from(["ann", "bob", "cyd"])
topics = st.sampled_from(["orders", "bills"])
partitions = st.builds(
    PartitionFacts,
    topics,
    st.integers(0, 3),
    owner=st.none() | names,
    trouble=st.none() | st.text(max_size=2_000),
    ready=counts,
    fetched=counts,
    asked_ago=st.none() | spans,
    behind_keys=counts,
    not_looked_at=counts,
    longest_backlog=st.none() | st.builds(KeyBacklog, st.binary(max_size=300).map(shown_key), counts, counts),
    unsynced=counts,
    in_flight=counts,
    oldest_lease=st.none() | st.builds(OldestLease, names, spans, spans),
    waiting=counts,
    next_retry_in=st.none() | spans,
    leaving=counts,
    alone_waits=st.booleans(),
    damaged=counts,
    damaged_at=st.none() | counts,
    stands_before_damage=st.booleans(),
    last_message=st.none() | st.builds(LastMessage, st.just("then"), spans),
    last_delivery=st.none() | st.builds(LastDelivery, names, spans),
)
members = st.builds(
    MemberFacts,
    names,
    asks_for=st.lists(topics, max_size=5).map(tuple),
    topics=st.frozensets(topics),
    is_connected=st.booleans(),
    silent_for=spans,
    member_for=spans,
    holds=counts,
    holds_alone=st.booleans(),
    asked_ago=st.none() | spans,
)
groups = st.builds(
    GroupFacts,
    st.just("billing"),
    st.lists(members, max_size=3, unique_by=lambda each: each.id).map(tuple),
    st.lists(partitions, max_size=4, unique_by=lambda each: each.name).map(tuple),
    is_shared=st.booleans(),
    is_stream=st.booleans(),
    rebalancing_for=st.none() | spans,
    letting_go=st.lists(names, max_size=3, unique=True).map(tuple),
)


@given(groups)
def test_whatever_is_the_case_there_is_one_sentence(facts: GroupFacts) -> None:
    for each in (facts, *(facts.of(member.id) for member in facts.members)):
        found = explain(each)
        assert found.reason in RULES
        assert 0 < len(found.text) < 4_096
        assert found.text.isprintable(), "one line, whatever others have for names"
        assert "None" not in found.text or "damaged" in found.text
        assert all(value is None or isinstance(value, str | int | float) for value in each.figures().values())
