"""Sizes for people: 1GiB, 1.5KiB, 512B. Programs get numbers of bytes."""

import re
from collections.abc import Mapping

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
FACTORS: Mapping[str, int] = {unit.lower(): 1024**power for power, unit in enumerate(UNITS)} | {
    f"{letter}b": 1000**power for power, letter in enumerate("kmgtpe", 1)
}
SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) ?([a-zA-Z]{1,3})", re.ASCII)


def size_text(size: int) -> str:
    """Rounded to a tenth of the largest unit that fits."""
    power = 0
    while power + 1 < len(UNITS) and round(size / 1024**power, 1) >= 1024:
        power += 1
    return f"{size / 1024**power:.1f}".removesuffix(".0") + UNITS[power]


def exact_size_text(size: int) -> str:
    """With a unit if that says the very number, else in bytes."""
    text = size_text(size)
    return text if size_of(text) == size and size >= 1024 else str(size)


def size_of(text: str) -> int | None:
    """The bytes of a text like 1GiB, 500MB or 1.5 KiB; None if it is none, or has no unit."""
    found = SIZE.fullmatch(text.strip())
    factor = FACTORS.get(found[2].lower()) if found else None
    if found is None or factor is None:
        return None
    whole, _, fraction = found[1].partition(".")
    tenths = int("1" + "0" * len(fraction))
    return (int(whole + fraction) * factor + tenths // 2) // tenths
