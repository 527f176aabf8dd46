"""Levels, normalization and modes: of the registry, and of subjects that have their own."""

import pytest

from goqueue.core.schemas.schema import Compatibility, Mode
from goqueue.core.schemas.settings import EffectiveSettings, OwnSettings
from goqueue.errors import RegistryError
from tests.core.schemas.registries import AppliedRegistry


def refused_with(number: int) -> pytest.RaisesExc[RegistryError]:
    return pytest.raises(RegistryError, check=lambda error: error.error_code == number)


def test_a_subject_has_the_settings_of_the_registry_unless_it_has_its_own() -> None:
    registry = AppliedRegistry()
    held = registry.registry.settings
    assert held() == held("orders") == (Compatibility.BACKWARD, False, Mode.READWRITE)
    registry.set(level="FULL")
    registry.set("orders", normalize=True)
    assert held("orders-value") == (Compatibility.FULL, True, Mode.READWRITE)
    assert held("bills") == (Compatibility.FULL, False, Mode.READWRITE)
    registry.set("orders", level="NONE")
    assert registry.registry.own_settings("orders") == OwnSettings(Compatibility.NONE, True, None)
    before = registry.reset("orders", config=True)
    assert before == OwnSettings(Compatibility.NONE, True, None)
    assert held("orders") == held()
    registry.reset(config=True)
    assert held() == EffectiveSettings(Compatibility.BACKWARD, False, Mode.READWRITE)


def test_what_is_not_there_cannot_be_taken_back() -> None:
    registry = AppliedRegistry()
    with refused_with(40408):
        registry.reset("orders", config=True)
    with refused_with(40409):
        registry.reset("orders", mode=True)
    registry.set("orders", level="FULL")
    with refused_with(40409):
        registry.reset("orders", config=True, mode=True)
    assert registry.registry.own_settings("orders").level is Compatibility.FULL


def test_unknown_levels_and_modes_are_refused_with_those_that_there_are() -> None:
    registry = AppliedRegistry()
    with refused_with(42203) as refused:
        registry.set("orders", level="backward")
    assert "BACKWARD_TRANSITIVE" in str(refused.value)
    with refused_with(42204):
        registry.set(mode="WRITEONLY")
    with refused_with(42208):
        registry.set("", level="NONE")


def test_a_read_only_subject_keeps_its_level_until_its_mode_is_changed() -> None:
    registry = AppliedRegistry()
    registry.set("orders", mode="READONLY")
    with refused_with(42205):
        registry.set("orders", level="NONE")
    registry.set(mode="READONLY")
    with refused_with(42205):
        registry.set(level="NONE")
    registry.set(mode="READWRITE")
    registry.reset("orders", mode=True)
    registry.set("orders", level="NONE")


def test_a_subject_without_versions_may_have_settings() -> None:
    registry = AppliedRegistry()
    registry.set("orders", level="NONE")
    assert registry.subjects() == []
    assert registry.registry.is_known("orders-value")
    assert registry.register("orders-value").subject == "orders-value"
