"""Bytes in JSON: as text where they are text that can be read, else as base64 under another name."""

from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from typing import Annotated, Any

from pydantic import Field

from goqueue.http.server.errors import InvalidRequest

Base64 = Annotated[str, Field(description="base64")]
_CONTROL = bytes({*range(0x20), 0x7F} - set(b"\t\r\n"))


def text_of(data: bytes) -> str | None:
    """None where it is not UTF-8, or has control characters other than tabs and line ends. These are bytes of UTF-8
    that stand for nothing else."""
    if len(data.translate(None, _CONTROL)) != len(data):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def base64_of(data: bytes) -> str:
    return b64encode(data).decode()


def bytes_of(text: str, field: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (BadBase64, ValueError) as error:
        raise InvalidRequest(f"{field} is not base64: {error}") from None


def key_in_json(key: bytes | None) -> dict[str, Any]:
    if key is None:
        return {}
    text = text_of(key)
    return {"key_base64": base64_of(key)} if text is None else {"key": text}
