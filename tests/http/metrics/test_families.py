"""The table of families, and the page that is made of it."""

from goqueue.http.metrics.families import FAMILIES, PREFIX, Kind, openmetrics_head
from tests.http.metrics.page import HEADINGS, PAGE, group_of, with_tables


def test_the_page_has_every_family() -> None:
    assert PAGE.read_text() == with_tables(PAGE.read_text()), "run python -m tests.http.metrics.page"


def test_every_family_has_one_of_the_prefixes() -> None:
    assert {group_of(family) for family in FAMILIES} == set(HEADINGS)


def test_no_two_families_share_a_name_in_either_format() -> None:
    """OpenMetrics names a counter without its `_total`, and that name must not be another family's."""
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    assert len({openmetrics_head(family)[0] for family in FAMILIES}) == len(FAMILIES)


def test_only_counters_end_in_total_and_none_is_labelled_by_whoever_comes_and_goes() -> None:
    for family in FAMILIES:
        assert family.name.startswith(PREFIX)
        assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
        assert not {"member", "client", "key", "path", "trace", "le"} & set(family.labels)
