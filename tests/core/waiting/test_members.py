"""Who waits for messages, and whose turn it is."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.waiting.members import MemberWaits

MEMBERS = ["ann", "bob", "cid", "dan"]


def anybody(_member: str, _waiter: str) -> bool:
    return True


def test_a_member_is_let_go_once_by_its_group_or_its_deadline() -> None:
    waits: MemberWaits[str] = MemberWaits()
    waits.wait("a", "ann", "first", 10.0)
    waits.wait("b", "ann", "second", 5.0)
    waits.wait("a", "bob", "third", 7.0)
    assert (len(waits), "a" in waits, "c" in waits, waits.next_deadline()) == (3, True, False, 5.0)
    assert waits.of("a", lambda member, _: member == "bob") == ["third"]
    assert waits.expired(5.0) == ["second"]
    assert ("b" in waits, waits.next_deadline()) == (False, 10.0)
    assert waits.all() == ["first"]
    assert (waits.expired(99.0), waits.next_deadline(), len(waits)) == ([], None, 0)


def test_waits_that_are_over_do_not_pile_up() -> None:
    waits: MemberWaits[int] = MemberWaits()
    for number in range(10_000):
        waits.wait("a", "ann", number, 1_000.0 + number)
        assert waits.of("a", lambda member, _: member == "ann") == [number]
    assert len(waits._deadlines._heap) < 100


def test_those_who_have_gone_wait_no_more() -> None:
    waits: MemberWaits[str] = MemberWaits()
    for group, waiter in (("g", "gone"), ("g", "there"), ("h", "gone")):
        waits.wait(group, "member", waiter, 10.0)
    assert waits.of("g", lambda _, waiter: waiter == "gone") == ["gone"]
    assert (len(waits), waits.of("g", anybody)) == (2, ["there"])
    assert waits.of("h", anybody) == ["gone"]


def test_who_was_served_longest_ago_is_first_and_to_wait_anew_loses_no_turn() -> None:
    waits: MemberWaits[str] = MemberWaits()
    waits.wait("g", "ann", "ann", 10.0, served_at=3.0)
    waits.wait("g", "bob", "bob", 10.0, served_at=2.0)
    assert waits.expired(10.0) == ["ann", "bob"]
    for name, served_at in (("new", 0.0), ("ann", 3.0), ("bob", 2.0), ("newer", 0.0)):
        waits.wait("g", name, name, 20.0, served_at)
    assert [waits.first("g", anybody) for _ in range(5)] == ["new", "newer", "bob", "ann", None]


def test_who_is_not_chosen_waits_on_and_keeps_its_turn() -> None:
    waits: MemberWaits[str] = MemberWaits()
    for name in ("ann", "bob"):
        waits.wait("g", name, name, 10.0)
    assert waits.first("g", lambda member, _: member == "bob") == "bob"
    assert waits.first("g", lambda member, _: member == "bob") is None
    waits.wait("g", "bob", "bob", 10.0, served_at=1.0)
    assert waits.first("g", anybody) == "ann"


@given(st.lists(st.tuples(st.integers(0, 2), st.sets(st.sampled_from(MEMBERS))), max_size=60))
def test_nobody_has_two_turns_more_than_another_that_always_waits(rounds: list[tuple[int, set[str]]]) -> None:
    """Whichever of three partitions has something, whoever else comes and goes, however often each waits anew."""
    places = [MemberWaits[str]() for _ in range(3)]
    turns, served_at = Counter[str](), Counter[str]()
    for now, (place, others) in enumerate(rounds, start=1):
        for name in sorted({"ann", "bob"} | others):
            for waits in places:
                waits.wait("g", name, name, 10.0, served_at[name])
        first = places[place].first("g", anybody)
        assert first is not None
        turns[first] += 1
        served_at[first] = now
        for waits in places:
            waits.of("g", anybody)
    assert abs(turns["ann"] - turns["bob"]) <= 1
    assert max(turns.values(), default=0) <= min(turns["ann"], turns["bob"]) + 1
