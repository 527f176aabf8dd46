"""The names of subjects: what they belong to, and what they are called in the file system."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.core.schemas.subjects import canonical, folder_of, subject_of_keys, subject_of_values, topic_of


def test_a_subject_belongs_to_the_topic_before_its_suffix() -> None:
    assert canonical("orders") == canonical("orders-value") == subject_of_values("orders")
    assert canonical("orders-key") == subject_of_keys("orders")
    assert topic_of(canonical("orders")) == topic_of("orders-value") == topic_of("orders-key") == "orders"


def test_a_topic_whose_own_name_ends_so_has_its_subjects_by_their_full_names() -> None:
    """`orders-value` are the values of `orders`, and those of topic `orders-value` have the suffix twice."""
    assert subject_of_values("orders-value") == "orders-value-value"
    assert topic_of("orders-value-value") == "orders-value"
    assert topic_of("orders-key-value") == "orders-key"
    assert topic_of("orders-key-key") == "orders-key"


@given(st.text())
def test_every_topic_finds_its_subjects_again(topic: str) -> None:
    assert topic_of(subject_of_values(topic)) == topic_of(subject_of_keys(topic)) == topic
    assert canonical(canonical(topic)) == canonical(topic)


NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=255)


@given(NAMES, NAMES)
def test_a_folder_leads_nowhere_else_and_belongs_to_one_subject(one: str, other: str) -> None:
    folder = folder_of(one)
    assert not {"/", "\\", "\0", ":"} & set(folder)
    assert folder.isascii()
    assert not folder.startswith(".")
    assert 1 <= len(folder) <= 255
    assert (folder == folder_of(other)) == (one == other)


def test_folders_can_be_read_by_people() -> None:
    assert folder_of("orders-value") == "orders-value"
    assert folder_of("com.acme.Order") == "com.acme.Order"
    assert folder_of("../etc") == "%2E.%2Fetc"
    assert folder_of(".") == "%2E"
