"""What a page says to be still to come is not there: each such sentence names a feature, which is looked up.

The marker stands behind the sentence, on its line: `no cluster yet. <!-- not yet: cluster -->`. When the feature
exists the test fails, and the sentence goes, with its marker and its line of `EXISTS`.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import goqueue
from goqueue.cli import FILES as COMMANDS
from goqueue.settings import Settings

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _client_has(*names: str) -> bool:
    return any(hasattr(goqueue.Client, name) for name in names)


def _has_command(*names: str) -> bool:
    return any(name in COMMANDS for name in names)


def _has_setting(*beginnings: str) -> bool:
    return any(name.startswith(beginnings) for name in Settings.model_fields)


def _connect_takes(*names: str) -> bool:
    return any(name in inspect.signature(goqueue.connect).parameters for name in names)


def _names_extensions() -> bool:
    """Whether anybody has features to name, beside those who say that there is a field for them."""
    fields = ("net/wire/messages.py", "net/session/server.py")
    others = [path for path in (ROOT / "goqueue").rglob("*.py") if not path.as_posix().endswith(fields)]
    return any(re.search(r"features\b", path.read_text(), re.IGNORECASE) for path in others)


EXISTS: dict[str, Callable[[], bool]] = {
    "authentication": lambda: _connect_takes("key") or _has_command("key", "acl") or _has_setting("auth", "keys"),
    "cluster": lambda: _client_has("cluster") or _has_command("cluster") or _has_setting("peers", "cluster"),
    "extensions": _names_extensions,
    "tls": lambda: _connect_takes("tls_ca", "tls_cert") or _has_setting("tls"),
    "traces": lambda: _client_has("trace") or _has_command("trace"),
    "transactions": lambda: _client_has("transaction") or _has_command("txn"),
}
"""By the name that markers use: whether it is there."""

CLAIM = re.compile(
    r"""
    \b yet \b
  | \b still \s+ (?: to \s+ come | missing ) \b
  | (?<! that\s ) (?<! what\s ) \b com (?: e | es | ing ) \s+ (?: later | next | soon ) \b
  | \b (?: later | future | coming ) \s+ (?: version | release ) s? \s+ (?: will | have | has | add ) \b
  | \b in \s+ (?: the \s+ )? future \b
  | \b not \s+ (?: built | implemented | supported ) \b
  | \b to \s+ be \s+ (?: built | added | implemented ) \b
  | \b (?: some | one ) \s+ day \b
  | \b road \s? map \b
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""How pages say that something is still to come. What comes later in a relative clause is a message or a member."""

OTHER_SENSES = (
    "be claimed as durable yet",
    "has not done yet",
    "has not opened yet",
    "is written yet",
    "may not have been made yet",
    "need not exist yet",
    "not yet due",
    "was not delivered yet",
)
"""Of messages, members and files, not of features."""

MARKER = re.compile(r"<!--\s*not\s+yet\b(.*?)-->", re.DOTALL)
NAME = re.compile(r": (\w+) ")
SEEN = "\N{CHECK MARK}"


def pattern_of(phrase: str) -> str:
    """Wherever the lines break."""
    return r"\s+".join(map(re.escape, phrase.split()))


def markers_in(text: str) -> list[str]:
    """Their names; of one that is not written as it should be, all that it says."""
    found = [(inside, NAME.fullmatch(inside)) for inside in MARKER.findall(text)]
    return [inside if name is None else name[1] for inside, name in found]


def unmarked_in(text: str) -> Iterator[str]:
    """The lines with a claim and no marker behind it."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = MARKER.sub(SEEN, text)
    text = re.sub("|".join(map(pattern_of, OTHER_SENSES)), "", text)
    for claim in CLAIM.finditer(text):
        begin, end = text.rfind("\n", 0, claim.start()) + 1, f"{text}\n".index("\n", claim.end())
        if SEEN not in text[claim.end() : end]:
            yield text[begin:end]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_sentence_that_says_not_yet_has_a_marker(page: Path) -> None:
    cure = "put `<!-- not yet: NAME -->` behind it, or the phrase into OTHER_SENSES"
    assert list(unmarked_in(page.read_text())) == [], cure


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_marker_names_a_feature_that_can_be_looked_up(page: Path) -> None:
    assert [name for name in markers_in(page.read_text()) if name not in EXISTS] == []


@pytest.mark.parametrize("feature", EXISTS)
def test_what_is_still_to_come_does_not_exist(feature: str) -> None:
    pages = [named(page) for page in PAGES if feature in markers_in(page.read_text())]
    assert pages, f"no page says that {feature} is still to come: remove it from EXISTS"
    assert not EXISTS[feature](), f"it exists, but these pages say that it does not: {pages}"


@pytest.mark.parametrize("phrase", OTHER_SENSES)
def test_a_phrase_of_another_sense_is_on_a_page(phrase: str) -> None:
    assert any(re.search(pattern_of(phrase), page.read_text()) for page in PAGES)


@pytest.mark.parametrize(
    "text",
    [
        "There is no cluster yet.",
        "It is not\nyet there.",
        "Traces are still to come.",
        "Delays come next in goqueue.",
        "TLS comes later.",
        "Transactions are not built.",
        "A later version will have it.",
        "<!-- not yet: cluster --> There is no cluster yet.",
        "There is no cluster yet.\n<!-- not yet: cluster -->",
    ],
)
def test_a_claim_is_found(text: str) -> None:
    assert list(unmarked_in(text))


@pytest.mark.parametrize(
    "text",
    [
        "There is no cluster yet. <!-- not yet: cluster -->",
        "| no cluster yet <!-- not yet: cluster --> | – |",
        "Groups that come later find it, and what comes next is delivered.",
        "A later version's new defaults do not change topics that are there.",
        "what the group\nhas not done yet",
        "```python\npass  # not yet\n```",
    ],
)
def test_other_sentences_are_no_claims(text: str) -> None:
    assert list(unmarked_in(text)) == []


def test_a_marker_that_is_written_otherwise_is_not_a_name() -> None:
    assert markers_in("<!-- not yet: cluster --> <!-- not yet cluster --> <!--not yet: tls-->") == [
        "cluster",
        " cluster ",
        ": tls",
    ]
