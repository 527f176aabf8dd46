"""One kind of message, as each kind of schema that a program may give."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

ORDER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string", "default": ""}},
    "required": ["id"],
    "additionalProperties": False,
}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Line(BaseModel):
    sku: str
    count: int = Field(default=1, ge=1)


class Order(BaseModel):
    """What a customer wants."""

    id: int
    note: str = ""
    lines: list[Line] = []


class NewerOrder(Order):
    """The next version: a field that older messages do not have."""

    placed_at: datetime = NOON


@dataclass
class Payment:
    id: int
    amount: float
    cards: list[str] = field(default_factory=list)
