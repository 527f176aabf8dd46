"""The words of the sentences that say why nothing is delivered: numbers, spans, names and keys."""

from collections.abc import Iterable

NAMES_MAX = 3
KEY_LENGTH_MAX = 40


def one_line(text: str) -> str:
    """Escape what is not printable: names are chosen by others."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def verb(number: int, one: str, many: str | None = None) -> str:
    """Without `many`, `one` is the plural form of a verb that takes an s."""
    if many is None:
        return f"{one}s" if number == 1 else one
    return one if number == 1 else many


def listed(names: Iterable[str]) -> str:
    all_of_them = list(names)
    shown = ", ".join(all_of_them[:NAMES_MAX]) or "nothing"
    rest = len(all_of_them) - NAMES_MAX
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def span(seconds: float) -> str:
    """Exact enough to act on: tenths below ten seconds, and the two largest units above two minutes."""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min {int(seconds % 60)} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"


def shown_key(key: bytes) -> str:
    """In quotes: as text if it is some, else with its bytes escaped; only the beginning of a long one."""
    beginning = key[: 4 * KEY_LENGTH_MAX]
    try:
        text = repr(beginning.decode())
    except UnicodeDecodeError:
        text = repr(beginning)[1:]
    shown = text[1:-1]
    is_whole = beginning == key and len(shown) <= KEY_LENGTH_MAX
    return f"'{shown}'" if is_whole else f"'{shown[:KEY_LENGTH_MAX]}…'"
