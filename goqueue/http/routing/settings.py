"""Settings of topics and groups in the OpenAPI document, from the tables that also check them."""

from typing import Any

from pydantic import AfterValidator

from goqueue.core.settingstable import (
    HOURS_MAX,
    UNLIMITED,
    Choice,
    Hours,
    Number,
    SettingKind,
    SettingsTable,
    Whole,
)


def settings_schema(table: SettingsTable, *, may_reset: bool = False) -> dict[str, Any]:
    """`may_reset`: null is the default. Where that is no limit, null means it anyway."""
    properties: dict[str, Any] = {}
    for row in table:
        takes_null = may_reset or row.default is None
        shown = {"anyOf": [*_schemas(row.kind), *([{"type": "null"}] if takes_null else [])]}
        properties[row.name] = {**shown, "description": row.meaning}
    return {"properties": properties, "additionalProperties": False}


def known_settings(table: SettingsTable) -> AfterValidator:
    """For a request that passes over what it does not know, as newer clients speak to older brokers: JSON has no
    versions, and what is misspelt is refused."""

    def check(given: dict[str, Any]) -> dict[str, Any]:
        for fault in table.unknown_faults(given):
            raise ValueError(fault)
        return given

    return AfterValidator(check)


def _schemas(kind: SettingKind) -> list[dict[str, Any]]:
    match kind:
        case Choice(values):
            return [{"enum": list(values)}]
        case Whole(least, most, or_unlimited):
            return [{"type": "integer", "minimum": least, "maximum": most}, *_unlimited(or_unlimited)]
        case Hours(or_unlimited):
            return [{"type": "number", "minimum": 1 / 3600, "maximum": HOURS_MAX}, *_unlimited(or_unlimited)]
        case Number(least, most):
            return [{"type": "number", "minimum": least, "maximum": most}]
        case _:
            return [{"type": "boolean"}]


def _unlimited(is_there: bool) -> list[dict[str, Any]]:
    return [{"const": UNLIMITED}] if is_there else []
