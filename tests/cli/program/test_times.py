"""Times and lengths of time, as people write them."""

import click
import pytest

from goqueue.cli.program.times import Length, PastTime, Time, length_of


def test_how_long_ago_is_a_time() -> None:
    past = PastTime(lambda: 1_000_000.0)
    wanted = {"30s": 999_970.0, "15m": 999_100.0, "1.5h": 994_600.0, "3d": 740_800.0, "9999d": 0.0, "17": 17.0}
    assert {text: past.convert(text, None, None) for text in wanted} == wanted


def test_a_length_is_seconds_or_has_a_unit() -> None:
    wanted = {"0": 0.0, "1.5": 1.5, "30s": 30.0, "15m": 900.0, "2h": 7_200.0, "3d": 259_200.0, "0s": 0.0}
    assert {text: Length().convert(text, None, None) for text in wanted} == wanted
    assert Length().convert(30, None, None) == 30.0  # a default is no text
    assert length_of("30") is None


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "1 week", "5x", "", "1h30m"])
def test_what_is_no_length_says_what_is(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no length of time; give seconds, or text like 30s, 15m, 1h"):
        Length().convert(text, None, None)


@pytest.mark.parametrize("text", ["0", "0s"])
def test_a_length_above_zero_is_not_zero(text: str) -> None:
    with pytest.raises(click.BadParameter, match="too short"):
        Length(above_zero=True).convert(text, None, None)


def test_a_time_to_come_is_not_said_by_how_long_ago() -> None:
    with pytest.raises(click.BadParameter, match="seconds since 1970"):
        Time().convert("1h", None, None)
