"""Bodies and queries as models: what is wrong is named, and hostile JSON costs little."""

from typing import Annotated, Any

import pytest
from pydantic import Field

from goqueue.http.routing.reading import (
    BRACKETS_MAX,
    check_encoding,
    check_media_type,
    media_type,
    parse_json,
    read_model,
)
from goqueue.http.routing.route import Model
from goqueue.http.server.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from goqueue.http.server.machine import Head

TAKES = ("application/json", "application/x-ndjson")


class Asked(Model):
    name: str
    count: Annotated[int, Field(ge=0, le=10)] = 1
    seconds: Annotated[float, Field(ge=0, le=60)] = 0.0
    is_dry: bool = False
    names: Annotated[str, Field(min_length=1)] | list[str] = "a"
    settings: dict[str, str | int | None] = {}  # noqa: RUF012  # only read


def head(*headers: tuple[bytes, bytes]) -> Head:
    return Head("POST", b"/", headers, 0, is_last=False, knows_chunks=True, expects_continue=False)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": "a", "colour": 1}, "there is no field 'colour' here"),
        ({}, "name is missing"),
        ({"name": 1}, "name: input should be a valid string"),
        ({"name": "a", "count": "1"}, "count: "),
        ({"name": "a", "count": True}, "count: "),
        ({"name": "a", "count": 1.0}, "count: "),
        ({"name": "a", "count": 11}, "count: "),
        ({"name": "a", "is_dry": "true"}, "is_dry: "),
        ({"name": "a", "seconds": "1"}, "seconds: "),
        ({"name": "a", "names": 7}, "names: input should be a valid string, or input should be a valid list"),
        ({"name": "a", "names": ["b", 7]}, "names: input should be a valid string; names.1: input should be"),
        ({"name": "a", "settings": {"x": []}}, "settings.x: input should be a valid string, or input should be"),
        ({f"x{number}": 1 for number in range(101)}, "there are 101 fields"),
        ([], "the body is an object, not list"),
        (None, "the body is an object, not NoneType"),
    ],
)
def test_json_has_types_of_its_own(body: Any, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_model(Asked, body)
    assert words in str(refused.value)


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "61", "-1", "x", ""])
def test_a_number_of_a_query_is_a_number_in_its_range(seconds: str) -> None:
    with pytest.raises(InvalidRequest):
        read_model(Asked, {"name": "a", "seconds": seconds}, of_query=True)


def test_text_of_a_query_is_the_number_that_its_field_wants() -> None:
    asked = read_model(Asked, {"name": "1", "count": "2", "seconds": "0.5", "is_dry": "true"}, of_query=True)
    assert asked == Asked(name="1", count=2, seconds=0.5, is_dry=True)


def test_a_few_faults_are_named_and_the_others_counted() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_model(Asked, {"name": "a", **{f"x{number}": 1 for number in range(50)}})
    assert str(refused.value).endswith("; and 45 more")
    assert len(refused.value.details["fields"]) == 5


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nul",
        b"{'a': 1}",
        b"\xff",
        b'"\xed\xa0\x80"',
        b"NaN",
        b"[1,]",
        b"1 2",
        b"[" * 2_000 + b"]" * 2_000,
    ],
)
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_json(data)
    assert str(refused.value).startswith("the body is not JSON: ")


def test_brackets_are_counted_before_they_are_parsed() -> None:
    parse_json(b"[" + b",".join([b"{}"] * (BRACKETS_MAX - 1)) + b"]")
    for data in (b"[" + b",".join([b"{}"] * BRACKETS_MAX) + b"]", b"[" * 1_000_000, b'{"a":1},' * 131_072):
        with pytest.raises(BodyTooLarge) as refused:
            parse_json(data)
        assert "application/x-ndjson" in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [b"application/json", b"Application/JSON; charset=utf-8", b" application/json ", b"application/x-ndjson;a"],
)
def test_a_media_type_is_known_by_its_name(given: bytes) -> None:
    check_media_type(head((b"content-type", given)), TAKES)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "no content type"),
        (b"", "no content type"),
        (b"text/plain", "text/plain"),
        (b"application/x-www-form-urlencoded", "application/json or application/x-ndjson"),
        (b"multipart/form-data; boundary=x", "multipart/form-data"),
        (b"application/vnd.kafka.json.v2+json", '{"messages": [{"key"'),
        (b"application/json/x", "application/json/x"),
    ],
)
def test_another_media_type_is_refused_and_the_good_ones_named(given: bytes | None, words: str) -> None:
    """Pages of other sites can send forms and plain text without being asked."""
    headers = [] if given is None else [(b"content-type", given)]
    with pytest.raises(UnsupportedMediaType) as refused:
        check_media_type(head(*headers), TAKES)
    assert words in str(refused.value)


def test_a_compressed_body_is_refused() -> None:
    with pytest.raises(UnsupportedMediaType):
        check_encoding(head((b"content-encoding", b"gzip")))
    check_encoding(head())


def test_the_first_of_two_types_counts_for_none() -> None:
    assert (
        media_type(head((b"content-type", b"text/plain"), (b"content-type", b"application/json"))) == "text/plain"
    )
