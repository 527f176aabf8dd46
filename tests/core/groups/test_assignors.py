"""Three ways to share partitions out: fair, complete, and sticky with the fewest moves (G10)."""

from collections.abc import Mapping
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.groups.assignors import Assignment, TopicPartition, assign

NAMES = ["sticky", "range", "roundrobin"]
NOTHING: dict[str, Assignment] = {}

topic_names = st.sampled_from(["s", "t", "u", "v"])
member_names = st.sampled_from([f"m{number}" for number in range(6)])
some_partitions = st.dictionaries(topic_names, st.integers(1, 6), min_size=1)
some_topics = st.frozensets(topic_names | st.just("not there"))
some_members = st.dictionaries(member_names, some_topics, min_size=1)
names = st.sampled_from(NAMES)


def of(*texts: str) -> Assignment:
    """`t0` is partition 0 of topic t."""
    return frozenset(TopicPartition(text[0], int(text[1:])) for text in texts)


def all_of(partitions: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]


def same_for(members: list[str], *topics: str) -> dict[str, frozenset[str]]:
    return dict.fromkeys(members, frozenset(topics))


@st.composite
def holdings(draw: st.DrawFn, members: list[str], partitions: Mapping[str, int]) -> dict[str, Assignment]:
    """Each partition at one member, at a stranger or at nobody."""
    owners = {each: draw(st.sampled_from([*members, "gone", None])) for each in all_of(partitions)}
    return {
        member: frozenset(each for each, owner in owners.items() if owner == member)
        for member in [*members, "gone"]
    }


def moves(before: Mapping[str, Assignment], after: Mapping[str, Assignment]) -> int:
    return sum(len(before.get(member, frozenset()) - share) for member, share in after.items())


def sizes(shares: Mapping[str, Assignment]) -> list[int]:
    return sorted(len(share) for share in shares.values())


def check_complete(
    members: Mapping[str, frozenset[str]], partitions: Mapping[str, int], shares: Mapping[str, Assignment]
) -> None:
    """Every partition that somebody reads has one owner, who reads it."""
    given_out = [each for share in shares.values() for each in share]
    read = frozenset[str]().union(*members.values())
    assert sorted(given_out) == sorted(each for each in all_of(partitions) if each.topic in read)
    assert shares.keys() == members.keys()
    assert all(each.topic in members[member] for member, share in shares.items() for each in share)


@given(st.data(), names, some_members, some_partitions)
def test_each_partition_that_is_read_goes_to_one_of_its_readers(
    data: st.DataObject, name: str, members: dict[str, frozenset[str]], partitions: dict[str, int]
) -> None:
    current = data.draw(holdings(sorted(members), partitions))
    check_complete(members, partitions, assign(name, members, partitions, current))


@given(st.data(), names, st.integers(1, 7), some_partitions)
def test_who_reads_the_same_topics_has_the_same_number_or_one_more(
    data: st.DataObject, name: str, count: int, partitions: dict[str, int]
) -> None:
    """Over all topics together, not in each."""
    members = same_for([f"m{number}" for number in range(count)], *partitions)
    current = data.draw(holdings(sorted(members), partitions))
    shares = sizes(assign(name, members, partitions, current))
    assert shares[-1] - shares[0] <= 1


def every_assignment(
    members: Mapping[str, frozenset[str]], partitions: Mapping[str, int]
) -> list[dict[str, Assignment]]:
    readers = {each: [m for m in sorted(members) if each.topic in members[m]] for each in all_of(partitions)}
    read = [each for each in readers if readers[each]]
    return [
        {member: frozenset(e for e, o in zip(read, owners, strict=True) if o == member) for member in members}
        for owners in product(*(readers[each] for each in read))
    ]


def squares(shares: Mapping[str, Assignment]) -> int:
    return sum(len(share) ** 2 for share in shares.values())


small_members = st.dictionaries(st.sampled_from(["m0", "m1", "m2"]), some_topics, min_size=1)
small_partitions = st.dictionaries(topic_names, st.integers(1, 3), min_size=1, max_size=3).filter(
    lambda partitions: sum(partitions.values()) <= 6
)


@given(st.data(), names, small_members, small_partitions)
def test_no_assignment_is_more_even_whoever_reads_what(
    data: st.DataObject, name: str, members: dict[str, frozenset[str]], partitions: dict[str, int]
) -> None:
    current = data.draw(holdings(sorted(members), partitions))
    best = min(map(squares, every_assignment(members, partitions)))
    assert squares(assign(name, members, partitions, current)) == best


@given(st.data(), st.integers(1, 3), small_partitions)
def test_sticky_makes_the_fewest_moves_of_all_fair_assignments(
    data: st.DataObject, count: int, partitions: dict[str, int]
) -> None:
    members = same_for([f"m{number}" for number in range(count)], *partitions)
    current = data.draw(holdings(sorted(members), partitions))
    everything = every_assignment(members, partitions)
    best = min(map(squares, everything))
    fewest = min(moves(current, shares) for shares in everything if squares(shares) == best)
    assert moves(current, assign("sticky", members, partitions, current)) == fewest


@given(st.data(), some_members, some_partitions)
def test_sticky_leaves_alone_what_it_made_itself(
    data: st.DataObject, members: dict[str, frozenset[str]], partitions: dict[str, int]
) -> None:
    current = data.draw(holdings(sorted(members), partitions))
    shares = assign("sticky", members, partitions, current)
    assert assign("sticky", members, partitions, shares) == shares


@given(st.data(), names, some_members, some_partitions, st.randoms(use_true_random=False))
def test_the_order_of_what_is_given_does_not_matter(
    data: st.DataObject, name: str, members: dict[str, frozenset[str]], partitions: dict[str, int], random: Random
) -> None:
    current = data.draw(holdings(sorted(members), partitions))

    def shuffled(given: Mapping[str, object]) -> dict[str, object]:
        return dict(random.sample(sorted(given.items(), key=str), len(given)))

    again = assign(name, shuffled(members), shuffled(partitions), shuffled(current))  # type: ignore[arg-type]
    assert again == assign(name, members, partitions, current)


@pytest.mark.parametrize("name", NAMES)
def test_nobody_gets_everything_and_nobody_nothing_of_an_empty_group(name: str) -> None:
    assert assign(name, {}, {"t": 3}, NOTHING) == {}
    assert assign(name, same_for(["a"], "t"), {}, NOTHING) == {"a": frozenset()}
    assert assign(name, {"a": frozenset()}, {"t": 3}, NOTHING) == {"a": frozenset()}


def test_range_gives_neighbours() -> None:
    shares = assign("range", same_for(["a", "b"], "t"), {"t": 5}, NOTHING)
    assert shares == {"a": of("t0", "t1", "t2"), "b": of("t3", "t4")}


def test_range_does_not_favour_the_first_member_in_every_topic() -> None:
    """Ten topics of one partition would all go to one of two members."""
    topics = [f"t{number}" for number in range(10)]
    shares = assign("range", same_for(["a", "b"], *topics), dict.fromkeys(topics, 1), NOTHING)
    assert sizes(shares) == [5, 5]


def test_range_gives_the_longer_run_to_who_has_less_so_far() -> None:
    shares = assign("range", same_for(["a", "b"], "s", "t"), {"s": 3, "t": 3}, NOTHING)
    assert shares == {"a": of("s0", "s1", "t0"), "b": of("s2", "t1", "t2")}


def test_roundrobin_goes_on_with_the_next_member_at_the_next_topic() -> None:
    shares = assign("roundrobin", same_for(["a", "b"], "s", "t"), {"s": 3, "t": 3}, NOTHING)
    assert shares == {"a": of("s0", "s2", "t1"), "b": of("s1", "t0", "t2")}


@pytest.mark.parametrize("name", NAMES)
def test_a_joiner_gets_its_part(name: str) -> None:
    """Three and nothing: the pitfall."""
    shares = assign(name, same_for(["a", "b"], "t"), {"t": 3}, {"a": of("t0", "t1", "t2")})
    assert sizes(shares) == [1, 2]


@pytest.mark.parametrize("name", NAMES)
def test_every_topic_of_a_group_counts_not_the_first_only(name: str) -> None:
    members = same_for(["a", "b", "c"], "s", "t", "u")
    shares = assign(name, members, {"s": 1, "t": 2, "u": 4}, NOTHING)
    check_complete(members, {"s": 1, "t": 2, "u": 4}, shares)
    assert sizes(shares) == [2, 2, 3]


@pytest.mark.parametrize("name", NAMES)
def test_a_member_that_reads_one_topic_is_relieved_of_it_by_way_of_another(name: str) -> None:
    """a reads s, b reads s and t, c reads t: a's surplus reaches c only if b hands on one of its own."""
    members = {"a": frozenset("s"), "b": frozenset("st"), "c": frozenset("t")}
    current = {"a": of("s0", "s1", "s2"), "b": of("s3", "t0", "t1")}
    assert sizes(assign(name, members, {"s": 4, "t": 2}, current)) == [2, 2, 2]


def test_sticky_takes_from_a_leaver_and_moves_nothing_else() -> None:
    current = {"a": of("t0", "t3"), "b": of("t1", "t4"), "c": of("t2", "t5")}
    shares = assign("sticky", same_for(["a", "b"], "t"), {"t": 6}, current)
    assert moves(current, shares) == 0
    assert sizes(shares) == [3, 3]


def test_what_two_claim_goes_to_one_and_what_is_no_more_to_nobody() -> None:
    current = {"a": of("t0", "t9", "x0"), "b": of("t0", "t1")}
    shares = assign("sticky", same_for(["a", "b"], "t"), {"t": 2}, current)
    assert shares == {"a": of("t0"), "b": of("t1")}


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_partitions_are_shared_by_a_hundred_members(name: str) -> None:
    topics = {f"topic-{number}": 50 for number in range(20)}
    everybody = [f"member-{number:02}" for number in range(100)]
    shares = assign(name, same_for(everybody[:99], *topics), topics, NOTHING)
    again = assign(name, same_for(everybody, *topics), topics, shares)
    assert set(sizes(again)) == {10}
    if name == "sticky":
        assert moves(shares, again) == 10
