"""The reasons of nacks and rejects, which become headers of dead letters."""

from reprlib import repr as shortened

from goqueue.client.link.arguments import TEXT_NEEDED, is_text
from goqueue.errors import InvalidMessage

REASON_LENGTH_MAX = 1_000


def checked_reason(reason: str) -> str:
    if not is_text(reason):
        raise InvalidMessage(f"reason={shortened(reason)} {TEXT_NEEDED}")
    if len(reason) > REASON_LENGTH_MAX:
        raise InvalidMessage(f"a reason has {len(reason):,} characters; use {REASON_LENGTH_MAX:,} at most")
    return reason


def reason_of(error: BaseException) -> str:
    """Type and text, cut and escaped so that they can be sent."""
    try:
        text = str(error)
    except Exception:  # an exception whose __str__ fails
        text = "its text cannot be had"
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    sound = reason[:REASON_LENGTH_MAX].encode(errors="backslashreplace").decode()
    return sound[:REASON_LENGTH_MAX]
