"""Rates from two looks."""

from goqueue.cli.top.rates import figures
from tests.cli.top.looks import group, look, topic


def test_a_rate_is_the_growth_by_the_brokers_own_time() -> None:
    before, after = look(10.0, {"published.messages": 100}), look(12.5, {"published.messages": 600})
    found = figures(before, after)
    assert (found.seconds, found.rates["published"]) == (2.5, 200.0)
    assert found.rates["acked"] is None, "a counter that the broker lacks has no rate"


def test_the_first_look_and_the_first_after_a_restart_have_no_rates() -> None:
    after = look(3.0, {"published.messages": 5}, topics=[topic("a", 5)], groups=[group("g", 5)])
    for before in (None, look(1_000.0, {"published.messages": 4}, topics=[topic("a", 4)], groups=[group("g", 4)])):
        found = figures(before, after)
        assert found.seconds is None
        assert set(found.rates.values()) == {None}
        assert found.topics[0].per_second is None
        assert found.groups[0].per_second is None


def test_the_busiest_topics_come_first_and_idle_ones_by_size() -> None:
    before = look(1.0, topics=[topic("a", 0), topic("b", 0), topic("c", 0, 7), topic("d", 0, 9)])
    after = look(2.0, topics=[topic("a", 5), topic("b", 50), topic("c", 0, 7), topic("d", 0, 9)])
    found = figures(before, after).topics
    assert [(each.topic.name, each.per_second) for each in found] == [("b", 50), ("a", 5), ("d", 0), ("c", 0)]


def test_a_topic_that_was_made_again_under_its_name_has_no_rate() -> None:
    before, after = look(1.0, topics=[topic("a", 5, uuid="x")]), look(2.0, topics=[topic("a", 9, uuid="y")])
    assert figures(before, after).topics[0].per_second is None


def test_groups_that_are_furthest_behind_come_first_and_a_reset_is_no_rate() -> None:
    before = look(1.0, groups=[group("done", 10), group("behind", 10), group("reset", 10)])
    after = look(3.0, groups=[group("done", 30), group("behind", 12, lag=90), group("reset", 0, lag=30)])
    found = figures(before, after).groups
    assert [(each.group.name, each.per_second) for each in found] == [("behind", 1), ("reset", None), ("done", 10)]
