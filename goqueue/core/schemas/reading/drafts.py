"""The drafts of JSON Schema that a schema may be written in."""

from enum import Enum
from typing import Any

from goqueue.core.schemas.reading.refusing import refused


class Draft(Enum):
    DRAFT_4 = "http://json-schema.org/draft-04/schema"
    DRAFT_6 = "http://json-schema.org/draft-06/schema"
    DRAFT_7 = "http://json-schema.org/draft-07/schema"
    DRAFT_2019_09 = "https://json-schema.org/draft/2019-09/schema"
    DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"

    @property
    def id_keyword(self) -> str:
        return "id" if self is Draft.DRAFT_4 else "$id"

    @property
    def ref_stands_alone(self) -> bool:
        """Beside `$ref` other keywords have no meaning."""
        return self in _OLD

    @property
    def uri(self) -> str:
        return f"{self.value}#" if self in _OLD else self.value


_OLD = (Draft.DRAFT_4, Draft.DRAFT_6, Draft.DRAFT_7)
_BY_URI = {draft.value: draft for draft in Draft}
NEWEST = Draft.DRAFT_2020_12


def draft_of(schema: Any) -> Draft:
    """The draft that `$schema` names; without it the newest."""
    if not isinstance(schema, dict) or "$schema" not in schema:
        return NEWEST
    named = schema["$schema"]
    draft = _BY_URI.get(named.removesuffix("#")) if isinstance(named, str) else None
    if draft is None:
        raise refused("#/$schema", f"names no draft that is known here; use one of {', '.join(_BY_URI)}")
    return draft
