"""Deleting versions and subjects: softly, then for good."""

import pytest

from goqueue.core.schemas.registry import LATEST
from goqueue.core.schemas.schema import Reference
from goqueue.errors import RegistryError
from tests.core.schemas.registries import NUMBER, STRING, AppliedRegistry, an_object


def refused_with(number: int) -> pytest.RaisesExc[RegistryError]:
    return pytest.raises(RegistryError, check=lambda error: error.error_code == number)


@pytest.fixture
def registry() -> AppliedRegistry:
    """Two versions of `orders`."""
    registry = AppliedRegistry()
    registry.register("orders", STRING)
    registry.register("orders", NUMBER)
    return registry


def test_a_version_is_deleted_softly_and_then_for_good(registry: AppliedRegistry) -> None:
    with refused_with(40407):
        registry.delete("orders", 1, permanent=True)
    assert registry.delete("orders-value", 1) == [1]
    with refused_with(40406):
        registry.delete("orders", 1)
    with refused_with(40402):
        registry.registry.version("orders", 1)
    assert registry.registry.version("orders", 1, deleted=True).is_deleted
    assert registry.registry.schema(1).schema.text == STRING
    assert registry.registry.resolved(1).text == STRING
    assert registry.delete("orders", 1, permanent=True) == [1]
    with refused_with(40402):
        registry.registry.version("orders", 1, deleted=True)
    for read in (registry.registry.schema, registry.registry.resolved, registry.registry.uses):
        with refused_with(40403):
            read(1)


def test_a_subject_is_deleted_softly_and_then_for_good(registry: AppliedRegistry) -> None:
    with refused_with(40405):
        registry.delete("orders", permanent=True)
    registry.delete("orders", 1)
    assert registry.delete("orders") == [2]
    with refused_with(40404):
        registry.delete("orders")
    with refused_with(40401):
        registry.versions("orders")
    assert registry.versions("orders", deleted=True) == [1, 2]
    assert registry.delete("orders", permanent=True) == [1, 2]
    with refused_with(40401):
        registry.versions("orders", deleted=True)
    with refused_with(40401):
        registry.delete("orders")


def test_a_soft_deletion_of_a_subject_takes_its_settings(registry: AppliedRegistry) -> None:
    registry.set("orders", level="NONE", mode="READWRITE")
    registry.delete("orders", 1)
    assert registry.registry.own_settings("orders").level is not None
    registry.delete("orders")
    assert registry.registry.own_settings("orders").level is None


def test_the_newest_version_that_is_there_is_in_force(registry: AppliedRegistry) -> None:
    registry.delete("orders", LATEST)
    assert registry.registry.version("orders").version == 1
    assert registry.register("orders", an_object("x")).version == 3
    assert registry.delete("orders", LATEST) == [3]
    assert registry.registry.version("orders", LATEST, deleted=True).version == 3


def test_unknown_ones_cannot_be_deleted(registry: AppliedRegistry) -> None:
    with refused_with(40401):
        registry.delete("bills", 1)
    with refused_with(40402):
        registry.delete("orders", 3)
    registry.set("bills", level="NONE")
    with refused_with(40401):
        registry.delete("bills")


def test_a_version_that_others_refer_to_stays(registry: AppliedRegistry) -> None:
    referring = registry.register("bills", '{"$ref":"o"}', [Reference("o", "orders", 1)])
    for number in (1, None):
        with refused_with(42206):
            registry.delete("orders", number)
    assert registry.delete("orders", 2) == [2]
    registry.delete("bills", referring.version)
    registry.delete("orders", 1)
    with refused_with(42206):
        registry.delete("orders", 1, permanent=True)
    registry.delete("bills", referring.version, permanent=True)
    assert registry.delete("orders", permanent=True) == [1, 2]


def test_versions_of_a_subject_may_refer_to_each_other(registry: AppliedRegistry) -> None:
    registry.register("orders", '{"$ref":"o"}', [Reference("o", "orders-value", 1)])
    with refused_with(42206):
        registry.delete("orders", 1)
    assert registry.delete("orders") == [1, 2, 3]
    assert registry.delete("orders", permanent=True) == [1, 2, 3]


def test_a_schema_stays_as_long_as_any_subject_has_it(registry: AppliedRegistry) -> None:
    registry.register("bills", STRING)
    registry.remove("orders")
    assert registry.registry.schema(1).schema.text == STRING
    assert registry.register("orders", STRING).id == 1
    assert registry.register("orders", NUMBER).id == 3


def test_the_numbers_of_forgotten_subjects_are_not_given_again() -> None:
    registry, last = AppliedRegistry(gone_max=3), {}
    for number in range(10):
        for text in (STRING, NUMBER):
            last[f"s{number}"] = registry.register(f"s{number}", text).version
        registry.remove(f"s{number}")
    assert len(registry.registry.snapshot()["subjects"]) == 3
    for name, version in last.items():
        assert registry.register(name, STRING).version > version
