"""A table of settings: declared once, checked and explained from there (G14)."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.settingstable import UNLIMITED, Choice, Hours, SettingsTable, Whole, YesOrNo, refuse, setting
from goqueue.errors import InvalidConfig


@dataclass(frozen=True)
class Oven:
    degrees: int = setting(180, Whole(50, 250), "How hot it is.")
    hours: float | None = setting(1, Hours(or_unlimited=True), "How long it bakes.")
    trays: int | None = setting(None, Whole(1, 4, or_unlimited=True), "How many trays it takes.")
    heat: str = setting("fan", Choice(("fan", "grill")), "Where the heat comes from.")
    light: bool = setting(False, YesOrNo(), "Whether one sees something.")


OVEN = SettingsTable(Oven, noun="setting of an oven", map_named="an oven's settings are a map of names")
GOOD: dict[str, Any] = {"degrees": 200, "hours": 0.5, "trays": 2, "heat": "grill", "light": True}


def faults_of(plain: dict[Any, object]) -> list[str]:
    return [*OVEN.unknown_faults(plain), *OVEN.value_faults(OVEN.read(plain))]


def test_the_rows_are_those_of_the_class_in_its_order() -> None:
    assert [row.name for row in OVEN] == ["degrees", "hours", "trays", "heat", "light"]
    assert [row.default for row in OVEN] == [180, 1, None, "fan", False]
    assert next(iter(OVEN)).meaning == "How hot it is."


def test_every_fault_is_told_with_what_would_be_good() -> None:
    plain = {"degrees": 20, "hours": "long", "trays": 9, "heat": "fire", "light": 1}
    assert faults_of(plain) == [
        "degrees is 20, but must be a whole number from 50 to 250",
        "hours is 'long', but must be hours, from 1/3600 (a second) to 1,000,000 or \"unlimited\"",
        'trays is 9, but must be a whole number from 1 to 4 or "unlimited"',
        'heat is \'fire\', but must be "fan" or "grill"',
        "light is 1, but must be true or false",
    ]


def test_an_unknown_name_is_told_with_the_nearest_known_one_or_all() -> None:
    assert faults_of({"degres": 100, 7: 1}) == [
        "'degres' is not a setting of an oven (did you mean 'degrees'?)",
        "7 is not a setting of an oven (there are degrees, hours, trays, heat, light)",
    ]


def test_what_is_no_map_is_refused_by_its_type() -> None:
    with pytest.raises(InvalidConfig, match="an oven's settings are a map of names to values, not list"):
        OVEN.checked_map([])


def test_a_refusal_names_all_faults_and_without_faults_nothing_is_refused() -> None:
    refuse([])
    with pytest.raises(InvalidConfig, match="nothing was changed: one; two") as caught:
        refuse(["one", "two"])
    assert caught.value.details["faults"] == ["one", "two"]


def test_none_is_the_default_when_altered_and_doubtful_when_first_given() -> None:
    plain = dict.fromkeys(GOOD)
    assert OVEN.read_changes(plain) == OVEN.values_of(Oven())
    assert [fault.split(" is ")[0] for fault in faults_of(plain)] == ["degrees", "hours", "heat", "light"]
    assert all("null" in fault for fault in faults_of(plain))


def test_unlimited_is_a_word_outside_and_none_inside() -> None:
    assert OVEN.read({"hours": UNLIMITED, "heat": UNLIMITED}) == {"hours": None, "heat": UNLIMITED}
    assert OVEN.to_plain(Oven(hours=None))["hours"] == UNLIMITED


@given(st.fixed_dictionaries({}, optional={name: st.just(value) for name, value in GOOD.items()}))
def test_good_values_come_back_as_they_were_given(plain: dict[str, Any]) -> None:
    assert faults_of(plain) == []
    oven = Oven(**OVEN.read(plain | {"of_a_later_version": 1}))
    assert OVEN.to_plain(oven) == OVEN.to_plain(Oven()) | plain
