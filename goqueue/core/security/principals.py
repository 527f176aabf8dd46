"""Who asks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    name: str


ANONYMOUS = Principal("anonymous")
"""Everybody, as long as there are no keys."""
