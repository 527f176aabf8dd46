"""What a valid schema is, and what makes two of them incompatible, as this broker has it."""

from collections.abc import Generator

from goqueue.core.schemas.comparing import Rules
from goqueue.core.schemas.findings import Finding
from goqueue.core.schemas.schema import ResolvedSchema


def _checking(_: ResolvedSchema) -> Generator[None, None, None]:
    yield


def _findings(_: ResolvedSchema, __: ResolvedSchema) -> Generator[None, None, list[Finding]]:
    yield
    return []


RULES = Rules(_checking, _findings)
"""Replaced when validation and compatibility are merged."""
