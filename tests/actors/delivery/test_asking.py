"""When members last asked a partition: who waits asks now, and a wait that ended early asked when it began."""

from typing import Any

import pytest

from goqueue.actors.delivery.asking import MEMBERS_MAX, Askers
from goqueue.actors.runtime.cycles import Party
from goqueue.actors.runtime.messages import Reply


def reply() -> Reply[None]:
    owed: dict[Reply[Any], None] = {}
    return Reply(Party("partition"), owed, wanted=True)


def test_a_request_counts_from_its_moment() -> None:
    askers = Askers()
    askers.note("ann", 10.0)
    askers.note("bob", 11.0)
    askers.note("ann", 12.0)
    assert askers.ago(15.0) == {"bob": 4.0, "ann": 3.0}


def test_who_waits_asks_until_its_time_is_up() -> None:
    askers, waits = Askers(), reply()
    askers.note_wait("ann", 10.0, 20.0, waits)
    assert askers.ago(15.0) == {"ann": 0.0}
    waits.resolve(None)
    assert askers.ago(23.0) == {"ann": 3.0}


@pytest.mark.parametrize("is_given_up", [True, False], ids=["given up", "let go"])
def test_a_wait_that_ended_early_counts_from_its_beginning(is_given_up: bool) -> None:
    askers, waits = Askers(), reply()
    askers.note_wait("ann", 10.0, 20.0, waits)
    if is_given_up:
        waits.forget()
    else:
        waits.resolve(None)
    assert askers.ago(15.0) == {"ann": 5.0}


def test_so_many_are_remembered_and_no_more() -> None:
    askers = Askers()
    for number in range(MEMBERS_MAX + 5):
        askers.note(str(number), 1.0)
    remembered = askers.ago(1.0)
    assert len(remembered) == MEMBERS_MAX
    assert "4" not in remembered
    assert "5" in remembered
