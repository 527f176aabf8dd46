"""What those who look at the registry see, who look often."""

from goqueue.core.schemas.registry import USES_SEEN_MAX
from goqueue.core.schemas.schema import SchemaVersion
from tests.core.schemas.registries import NUMBER, AppliedRegistry


def place(version: SchemaVersion) -> str:
    return f"{version.subject}{version.version}"


def test_the_use_of_a_schema_is_of_the_subject_that_was_hinted_and_not_deleted_if_there_is_such() -> None:
    made = AppliedRegistry()
    for name in ("a", "b", "c"):
        made.register(name)
    registry = made.registry
    assert place(registry.use_of(1)) == "a1"
    assert place(registry.use_of(1, "nobody")) == "a1"
    assert place(registry.use_of(1, "b-value")) == "b1"
    made.delete("a", 1)
    assert place(registry.use_of(1)) == "b1"
    assert place(registry.use_of(1, "a")) == "a1", "a hint goes first"
    made.register("a", NUMBER)
    made.set("a", level="NONE")
    made.register("a")
    assert place(registry.use_of(1, "a")) == "a3"


def test_a_schema_is_found_also_when_all_its_versions_are_deleted() -> None:
    made = AppliedRegistry()
    for number in range(USES_SEEN_MAX + 2):
        made.register(f"s{number}")
        made.delete(f"s{number}", 1)
    assert made.registry.use_of(1).is_deleted


def test_lists_and_counts_follow_each_change() -> None:
    made = AppliedRegistry()
    registry = made.registry

    def seen() -> tuple[list[str], int]:
        return [each.name for each in registry], registry.counts().subjects

    assert seen() == ([], 0)
    made.register("b")
    made.register("a")
    assert seen() == (["a", "b"], 2)
    made.delete("a")
    assert seen() == (["a", "b"], 1)
    made.delete("a", permanent=True)
    assert seen() == (["b"], 1)
    registry.apply(registry.snapshot())
    assert seen() == (["b"], 1)
