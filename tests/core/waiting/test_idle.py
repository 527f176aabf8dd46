"""A quiet spell: only waiting counts, what comes ends it, and what was said is said again later and later."""

from goqueue.core.waiting.idle import FIRST_SECONDS, PAUSE_SECONDS_MAX, IdleTime


def test_time_without_anybody_who_waits_does_not_count() -> None:
    spell = IdleTime()
    spell.begin_wait(100.0)
    spell.end_wait(110.0)
    assert (spell.waited(500.0), spell.left(500.0), spell.is_waiting) == (10.0, 20.0, False)
    spell.begin_wait(500.0)
    assert (spell.left(515.0), spell.left(520.0), spell.left(530.0)) == (5.0, 0.0, 0.0)


def test_several_who_wait_side_by_side_count_once() -> None:
    spell = IdleTime()
    spell.begin_wait(0.0)
    spell.begin_wait(5.0)
    spell.end_wait(10.0)
    assert spell.waited(12.0) == 12.0
    spell.end_wait(15.0)
    assert spell.waited(99.0) == 15.0


def test_what_comes_begins_another_spell() -> None:
    spell = IdleTime()
    spell.begin_wait(0.0)
    spell.said()
    spell.arrived(40.0)
    assert (spell.waited(41.0), spell.left(41.0)) == (1.0, FIRST_SECONDS - 1)
    spell.end_wait(41.0)
    spell.arrived(50.0)
    assert spell.waited(60.0) == 0.0


def test_the_pauses_double_up_to_an_hour() -> None:
    spell, dues = IdleTime(), []
    spell.begin_wait(0.0)
    for _ in range(10):
        dues.append(spell.left(0.0))
        spell.said()
    assert dues[:4] == [30.0, 90.0, 210.0, 450.0]
    assert dues[-1] - dues[-2] == PAUSE_SECONDS_MAX
