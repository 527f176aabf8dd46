"""The rules for what operators ask of groups: names, and wishes that cannot be fulfilled together."""

import pytest

from goqueue.core.groups.redrive import check_redrive
from goqueue.core.groups.start import check_reset, may_miss
from goqueue.errors import InvalidConfig, InvalidName, ProtocolError


def test_a_reset_is_for_all_for_a_topic_or_for_a_partition_of_a_topic() -> None:
    check_reset(None, None, "latest")
    check_reset("orders", None, "offset:5")
    check_reset("orders", 0, "earliest")
    with pytest.raises(ProtocolError):
        check_reset(None, 0, "latest")
    with pytest.raises(InvalidName):
        check_reset("a/b", None, "latest")
    with pytest.raises(InvalidConfig):
        check_reset(None, None, "now")


def test_a_redrive_goes_to_the_group_to_all_or_to_another_topic() -> None:
    check_redrive("orders", None, None, all_groups=True, per_second=None)
    check_redrive("orders", "billing", "others", all_groups=False, per_second=5)
    with pytest.raises(ProtocolError):
        check_redrive("orders", None, "others", all_groups=True, per_second=None)


def test_a_redrive_has_a_speed_at_which_it_ends() -> None:
    with pytest.raises(ProtocolError):
        check_redrive("orders", None, None, all_groups=False, per_second=0)


@pytest.mark.parametrize(("topic", "group", "to"), [("__x", None, None), ("x", "__x", None), ("x", None, "__x")])
def test_a_redrive_names_nothing_of_the_brokers_own(topic: str, group: str | None, to: str | None) -> None:
    with pytest.raises(InvalidName):
        check_redrive(topic, group, to, all_groups=False, per_second=None)


def test_only_a_group_that_begins_at_the_earliest_misses_nothing_if_it_begins_later() -> None:
    """An offset behind the end of the log means its end, which moves."""
    assert [may_miss(start) for start in ("earliest", "latest", "offset:7", "time:7")] == [False, True, True, True]
