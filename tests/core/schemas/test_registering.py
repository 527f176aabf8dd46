"""Registering schemas: ids, versions, sameness, references, modes."""

import pytest

from goqueue.core.schemas.registering import SIZE_MAX
from goqueue.core.schemas.schema import Compatibility, Reference, SchemaType
from goqueue.core.schemas.text import TEXT_SIZE_MAX
from goqueue.errors import RegistryError, SchemaConflict, UnknownSchema, UnknownSubject
from tests.core.schemas.registries import NUMBER, STRING, AppliedRegistry, an_object


def refused_with(number: int) -> pytest.RaisesExc[RegistryError]:
    return pytest.raises(RegistryError, check=lambda error: error.error_code == number)


def test_a_transcript() -> None:
    """Ids count for all subjects, versions for each."""
    registry = AppliedRegistry()
    first = registry.register("orders", an_object("id"))
    assert (first.subject, first.version, first.id) == ("orders", 1, 1)
    second = registry.register("orders", an_object("id", "sum"))
    assert (second.version, second.id) == (2, 2)
    other = registry.register("bills", NUMBER)
    assert (other.version, other.id) == (1, 3)
    again = registry.register("orders", an_object("id"))
    assert again == first
    assert registry.versions("orders") == [1, 2]


def test_the_same_schema_has_one_id_in_all_subjects() -> None:
    registry = AppliedRegistry()
    first, second = registry.register("orders"), registry.register("bills")
    assert first.id == second.id
    assert first.guid == second.guid
    assert [(each.subject, each.version) for each in registry.registry.uses(1)] == [("bills", 1), ("orders", 1)]


def test_bare_and_value_are_one_subject_listed_as_it_was_first_registered() -> None:
    registry = AppliedRegistry()
    registry.register("orders", STRING)
    assert registry.register("orders-value", NUMBER).version == 2
    assert registry.register("orders-value", NUMBER).subject == "orders"
    assert registry.subjects() == ["orders"]
    assert registry.register("bills-value").subject == "bills-value"
    assert registry.register("bills").version == 1
    assert registry.subjects() == ["bills-value", "orders"]
    registry.register("orders-key")
    assert registry.subjects() == ["bills-value", "orders", "orders-key"]


def test_white_space_and_the_spelling_of_values_make_no_other_schema() -> None:
    registry = AppliedRegistry()
    registry.register("a", '{"title":"é","maximum":100}')
    assert registry.register("a", '{ "title" : "\\u00e9", "maximum" : 1e2 }').version == 1
    assert registry.register("a", '{"maximum":100,"title":"é"}').version == 2


def test_with_normalize_the_order_of_members_does_not_count() -> None:
    registry = AppliedRegistry()
    first = registry.register("a", '{"title":"x","maximum":1}')
    assert registry.register("a", '{"maximum":1,"title":"x"}', normalize=True) == first
    elsewhere = registry.register("b", '{"maximum":1,"title":"x"}', normalize=True)
    assert (elsewhere.version, elsewhere.id) == (1, first.id)
    registry.set("a", normalize=True)
    assert registry.register("a", '{"maximum":1,"title":"x"}') == first
    assert registry.register("a", '{"maximum":1,"title":"x"}', normalize=False).version == 2


def test_the_text_is_served_as_it_was_registered() -> None:
    registry = AppliedRegistry()
    text = '{ "type" :\n"string" }'
    assert registry.register("a", text, normalize=True).schema.text == text


def test_a_softly_deleted_schema_becomes_a_new_version_under_its_old_id() -> None:
    registry = AppliedRegistry()
    first = registry.register("a")
    registry.delete("a", 1)
    again = registry.register("a")
    assert (again.version, again.id) == (2, first.id)


def test_a_schema_that_was_removed_for_good_gets_another_id_and_version() -> None:
    registry = AppliedRegistry()
    registry.register("a")
    registry.remove("a")
    assert registry.subjects() == []
    again = registry.register("a")
    assert (again.version, again.id) == (2, 2)
    with refused_with(40403):
        registry.registry.schema(1)


def test_a_schema_is_looked_up_in_its_subject() -> None:
    registry = AppliedRegistry()
    first = registry.register("a")
    registry.register("b", NUMBER)
    assert registry.look_up("a-value", STRING) == first
    with pytest.raises(UnknownSubject):
        registry.look_up("c", STRING)
    with pytest.raises(UnknownSchema):
        registry.look_up("a", NUMBER)
    registry.register("a", NUMBER)
    registry.delete("a", 1)
    with pytest.raises(UnknownSchema):
        registry.look_up("a", STRING)
    assert registry.look_up("a", STRING, deleted=True).version == 1


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb", "a\x00", "\x7f", "\ud800"])
def test_a_subject_has_a_name(name: str) -> None:
    with refused_with(42208):
        AppliedRegistry().register(name)


@pytest.mark.parametrize("name", ["com.acme.Order", "An order / of things", "été", "x" * 255, "-value", "."])
def test_a_subject_may_have_any_printable_name(name: str) -> None:
    assert AppliedRegistry().register(name).subject == name


def test_which_versions_a_schema_is_compared_with_and_how() -> None:
    registry = AppliedRegistry()
    for number in range(3):
        registry.register("a", an_object(str(number)))
    registry.delete("a", 2)
    expected = {
        Compatibility.NONE: [],
        Compatibility.BACKWARD: [(3, True, False)],
        Compatibility.BACKWARD_TRANSITIVE: [(3, True, False), (1, True, False)],
        Compatibility.FORWARD: [(3, False, True)],
        Compatibility.FORWARD_TRANSITIVE: [(3, False, True), (1, False, True)],
        Compatibility.FULL: [(3, True, True)],
        Compatibility.FULL_TRANSITIVE: [(3, True, True), (1, True, True)],
    }
    for level, compared in expected.items():
        registry.set("a", level=level.value)
        found = registry.compared_with("a", STRING)
        assert [(each.version.version, each.is_backward, each.is_forward) for each in found] == compared
        assert all(each.resolved.text == each.version.schema.text for each in found)


def test_with_force_nothing_is_compared() -> None:
    registry = AppliedRegistry()
    registry.register("a")
    assert len(registry.compared_with("a", NUMBER)) == 1
    assert registry.compared_with("a", NUMBER, force=True) == ()


# References


def test_references_are_resolved_transitively() -> None:
    registry = AppliedRegistry()
    registry.register("country", STRING)
    address = registry.register("address", '{"$ref":"country.json"}', [Reference("country.json", "country", 1)])
    order = registry.register(
        "orders", '{"items":{"$ref":"address.json#/x"}}', [Reference("address.json", "address-value", 1)]
    )
    (name, inner), *_ = registry.registry.resolved(order.id).references
    assert (name, inner) == ("address.json", registry.registry.resolved(address.id))
    assert inner.references[0][1].text == STRING
    assert registry.registry.referrers("address", 1) == [order]
    assert registry.registry.referrers("orders", 1) == []


def test_a_reference_must_exist_and_not_be_deleted() -> None:
    registry = AppliedRegistry()
    with refused_with(42201):
        registry.register("a", '{"$ref":"b"}', [Reference("b", "b", 1)])
    registry.register("b")
    for number in (0, 2, -1):
        with refused_with(42201):
            registry.register("a", '{"$ref":"b"}', [Reference("b", "b", number)])
    registry.delete("b", 1)
    with refused_with(42201):
        registry.register("a", '{"$ref":"b"}', [Reference("b", "b", 1)])


def test_a_schema_that_needs_too_many_others_is_refused() -> None:
    """Each refers twice to the one before, so that there are two to the power of nine ways down."""
    registry = AppliedRegistry()
    registry.register("s0")
    for number in range(1, 8):
        twice = [Reference(name, f"s{number - 1}", 1) for name in ("a", "b")]
        registry.register(f"s{number}", '{"allOf":[{"$ref":"a"},{"$ref":"b"}]}', twice)
    with refused_with(42201):
        registry.register("s8", "{}", [Reference(name, "s7", 1) for name in ("a", "b")])


def test_references_belong_to_the_schema() -> None:
    registry = AppliedRegistry()
    registry.register("x", STRING)
    registry.register("x", NUMBER)
    first = registry.register("a", '{"$ref":"x"}', [Reference("x", "x", 1)])
    second = registry.register("a", '{"$ref":"x"}', [Reference("x", "x", 2)])
    assert first.id != second.id
    assert first.guid != second.guid
    assert registry.register("a", '{"$ref":"x"}', [Reference("x", "x-value", 2)]) == second


def test_normalized_references_are_sorted() -> None:
    registry = AppliedRegistry()
    registry.register("x")
    first, second = Reference("f", "x", 1), Reference("s", "x", 1)
    text = '{"anyOf":[{"$ref":"f"},{"$ref":"s"}]}'
    known = registry.register("a", text, [first, second])
    assert registry.register("a", text, [second, first], normalize=True) == known
    assert registry.register("a", text, [second, first]).id != known.id


# Kinds and modes


def test_an_avro_schema_is_stored_at_level_none_only() -> None:
    registry = AppliedRegistry()
    with refused_with(42201):
        registry.register("a", '"string"', type=SchemaType.AVRO)
    registry.set("a", level="NONE")
    assert registry.register("a", '"string"', type=SchemaType.AVRO).version == 1
    assert registry.register("a", ' "string"', type=SchemaType.AVRO).version == 1


def test_a_read_only_subject_takes_nothing_new() -> None:
    registry = AppliedRegistry()
    first = registry.register("a")
    registry.set("a", mode="READONLY")
    assert registry.register("a") == first
    with refused_with(42205):
        registry.register("a", NUMBER)
    with refused_with(42205):
        registry.delete("a")
    registry.register("b")
    registry.set(mode="READONLY")
    with refused_with(42205):
        registry.register("c")
    registry.set("a", mode="READWRITE")
    assert registry.register("a", NUMBER).version == 2


def test_schemas_of_another_registry_keep_their_ids_and_versions() -> None:
    registry = AppliedRegistry()
    registry.register("other")
    registry.set("a", mode="IMPORT")
    assert registry.register("a", NUMBER, id=700, version=3).version == 3
    assert registry.register("a", NUMBER, id=700, version=3).id == 700
    assert registry.register("a", an_object("x"), id=20).version == 4
    registry.set("a", mode="READWRITE")
    last = registry.register("a", an_object("y"))
    assert (last.version, last.id) == (5, 701)


def test_an_imported_id_belongs_to_nobody_else() -> None:
    registry = AppliedRegistry()
    registry.register("other")
    registry.register("gone", NUMBER)
    registry.remove("gone")
    registry.set("a", mode="IMPORT")
    for taken in (1, 2, 0, 2**31):
        with refused_with(42207):
            registry.register("a", an_object("x"), id=taken)
    with refused_with(42207):
        registry.register("a", STRING, id=9)
    assert registry.register("a", STRING, id=1).version == 1


def test_an_imported_version_was_not_given_before() -> None:
    registry = AppliedRegistry()
    registry.set("a", mode="IMPORT")
    registry.register("a", STRING, id=5, version=5)
    for number in (1, 5):
        with refused_with(42202):
            registry.register("a", NUMBER, id=6, version=number)
    with refused_with(42202):
        registry.register("a", NUMBER, id=6, version=2**31)


def test_ids_are_given_in_mode_import_only_and_there_always() -> None:
    registry = AppliedRegistry()
    with refused_with(42205):
        registry.register("a", id=5)
    with refused_with(42205):
        registry.register("a", version=5)
    registry.set("a", mode="IMPORT")
    with refused_with(42205):
        registry.register("a")


def test_mode_import_wants_an_empty_subject() -> None:
    registry = AppliedRegistry()
    registry.register("a")
    for subject in ("a", None):
        with refused_with(42205):
            registry.set(subject, mode="IMPORT")
    registry.set("a", mode="IMPORT", force=True)
    assert registry.compared_with("a", NUMBER, id=8) == ()


# Bounds


def test_a_text_that_is_too_large_is_refused() -> None:
    with refused_with(42209):
        AppliedRegistry().register("a", '"' + "x" * TEXT_SIZE_MAX + '"')


def test_the_registry_has_room_for_so_many_bytes() -> None:
    registry = AppliedRegistry()
    size = TEXT_SIZE_MAX - 100
    for number in range(SIZE_MAX // size):
        registry.register("a", f'{{"title":"{number:010}{"x" * (size - 22)}"}}')
    with pytest.raises(SchemaConflict):
        registry.register("a", f'{{"title":"{"y" * (size - 22)}"}}')
    registry.register("a", STRING)
    registry.remove("a", 1)
    registry.register("a", f'{{"title":"{"y" * (size - 22)}"}}')
