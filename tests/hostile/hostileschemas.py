"""Schemas and values that would stop a broker, or end it, if it believed them."""

import json
from collections.abc import Mapping
from typing import Any

ROOT: Mapping[str, Any] = {"$ref": "#"}
MEBIBYTE = 1024 * 1024


def doubling(keyword: str, levels: int) -> dict[str, Any]:
    """Each level names the next one twice."""
    named = {
        f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(levels)
    }
    return {"$ref": "#/$defs/a0", "$defs": {**named, f"a{levels}": {"type": "string"}}}


def chain(length: int, end: Mapping[str, Any]) -> dict[str, Any]:
    named = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}, True]} for n in range(length)}
    return {"$ref": "#/$defs/a0", "$defs": {**named, f"a{length}": end}}


def nested(levels: int, opening: str, end: str, closing: str) -> str:
    return opening * levels + end + closing * levels


REFUSED: Mapping[str, str] = {
    "no JSON": "{",
    "deep": nested(10_000, '{"not":', "true", "}"),
    "deep where it is no schema": nested(10_000, '{"a":', "1", "}"),
    "circular": json.dumps(
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    ),
    "circular through a union": json.dumps({"anyOf": [{"type": "string"}, ROOT]}),
    "circular through a negation": json.dumps({"not": ROOT}),
    "unfolds to millions": json.dumps(doubling("anyOf", 30)),
    "unfolds to millions, all of them": json.dumps(doubling("allOf", 30)),
    "a long chain": json.dumps(chain(500, {"properties": {"a": ROOT}})),
    "remote": '{"$ref": "http://127.0.0.1:1/x"}',
    "a file": '{"$ref": "file:///etc/passwd"}',
    "remote and dynamic": '{"$dynamicRef": "https://127.0.0.1:1/x#y"}',
    "a draft of one's own": '{"$schema": "http://127.0.0.1:1/draft"}',
    "an old draft": '{"$schema": "http://json-schema.org/draft-03/schema#"}',
    "a look-ahead": '{"pattern": "^(?=(a+)+)b$"}',
    "a reference back": json.dumps({"pattern": r"(a)\1"}),
    "a huge pattern": '{"pattern": "((a{1000}){1000}){1000}"}',
    "a pattern of all letters": json.dumps({"pattern": r"\p{L}{1,2000}"}),
    "many patterns": json.dumps({"properties": {f"p{n}": {"pattern": f"^[a-z]{{1,300}}{n}$"} for n in range(500)}}),
    "a million in an enum": json.dumps({"enum": [0] * 1_000_000}),
    "many in an enum": json.dumps({"enum": list(range(150_000))}),
    "a megabyte of objects": json.dumps({"allOf": [{}] * 250_000}),
    "the same member twice": '{"type": "string", "type": "integer"}',
    "NaN": '{"const": NaN}',
    "a half of a surrogate pair": '{"const": "\\ud800"}',
    "the same anchor twice": '{"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}',
    "wrong keywords by the thousand": json.dumps(
        {"properties": {f"p{n}": {"minLength": "x"} for n in range(3_000)}}
    ),
    "an unending string of brackets in a name": json.dumps({"properties": {"[" * 100_000: 5}}),
}

TREE = {"type": "object", "properties": {"a": ROOT, "b": ROOT}}
ACCEPTED: Mapping[str, str] = {
    "a catastrophic pattern for others": '{"pattern": "^(a+)+$"}',
    "a pattern that is slow for its size": '{"pattern": "[ab]*a[ab]{300}c"}',
    "recursive": json.dumps(TREE),
    "recursive through a union": json.dumps({"anyOf": [{"type": "integer"}, {**TREE, "required": ["b"]}, TREE]}),
    "recursive in two ways": json.dumps({"allOf": [{"properties": {"a": ROOT}}, TREE]}),
    "recursive and unevaluated": json.dumps({"anyOf": [TREE, {"required": ["c"]}], "unevaluatedProperties": False}),
    "recursive in lists": json.dumps({"items": ROOT, "type": ["array", "integer"], "contains": ROOT}),
    "a chain that recurs": json.dumps(chain(25, {"type": "object", "properties": {"a": ROOT}})),
    "thousands of branches": json.dumps({"items": {"oneOf": [{"const": n, "minimum": n} for n in range(2_000)]}}),
    "thousands of fields": json.dumps({"properties": {f"p{n}": {"type": "string"} for n in range(4_000)}}),
    "an enum of arrays": json.dumps({"items": {"enum": [[n] for n in range(4_000)]}}),
    "unique": json.dumps({"uniqueItems": True, "items": {"uniqueItems": True}}),
    "a name of brackets": json.dumps({"properties": {"a": {"description": "[{," * 1_000}}}),
}

VALUES: Mapping[str, bytes] = {
    "nothing": b"",
    "no JSON": b"\xff\xfe",
    "NaN": b"NaN",
    "infinite": b"1e999999999",
    "a half of a surrogate pair": b'"\\ud800"',
    "the same member twice": b'{"a": 1, "a": {}}',
    "wrong framing": b"\x00\x00\x00",
    "an unknown id": b"\x00\x7f\xff\xff\xff{}",
    "an unknown guid": b"\x01" + bytes(16) + b"{}",
    "deep lists": nested(1_000, "[", "1", "]").encode(),
    "deep objects": nested(1_000, '{"a":', "1", "}").encode(),
    "less deep lists": nested(100, "[", "1", "]").encode(),
    "less deep objects": nested(100, '{"a":', "1", "}").encode(),
    "twenty levels": nested(20, '{"a":', "1", "}").encode(),
    "too deep for any parser": nested(100_000, "[", "", "]").encode(),
    "a bush": b'{"a": {"a": {"a": {}, "b": {"a": {}, "b": {}}}, "b": {"a": {}}}, "b": {"b": {"a": 1}}}',
    "thousands of lists": b"[" + b",".join([b"[]"] * 19_000) + b"]",
    "thousands of numbers": b"[" + b",".join([b"1"] * 100_000) + b"]",
    "thousands of different numbers": b"[" + b",".join(b"%d" % n for n in range(40_000)) + b"]",
    "thousands of fields": b"{" + b",".join(b'"f%d":1' % n for n in range(20_000)) + b"}",
    "a long text": b'"' + b"ab" * 130_000 + b'"',
    "a longer text": b'"' + b"a" * MEBIBYTE + b'"',
    "a megabyte of objects": b"[" + b",".join([b'{"a":1}'] * 130_000) + b"]",
    "a long number": b"9" * 200_000,
    "a text of brackets": b'"' + b"[" * 200_000 + b'"',
}
