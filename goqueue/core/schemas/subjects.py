"""The names of subjects, and which topic a subject belongs to.

    subject         belongs to             the same as
    orders          the values of orders   orders-value
    orders-value    the values of orders   orders
    orders-key      the keys of orders

The bare name is the same as the one with `-value`, except for topics whose own name ends so: `orders-value` are the
values of topic `orders`, and those of a topic that is called `orders-value` are `orders-value-value`. A subject is
listed as it was first registered, and found by either name. Subjects that belong to no topic are stored and served,
and validate nothing by themselves.
"""

from hashlib import sha256
from reprlib import repr as shortened
from typing import TypeAlias
from unicodedata import category
from urllib.parse import quote

from goqueue.errors import InvalidSchema

VALUE, KEY = "-value", "-key"
NAME_LENGTH_MAX = 255
FOLDER_NAME_MAX = 200
"""Limit of a folder's name before its checksum: file systems take 255 bytes."""
INVALID_SUBJECT = 42208

SubjectKey: TypeAlias = str
"""The name under which a subject is found, whichever of its two names it was asked by."""


def canonical(name: str) -> SubjectKey:
    return name if name.endswith((VALUE, KEY)) else name + VALUE


def subject_of_values(topic: str) -> SubjectKey:
    return topic + VALUE


def subject_of_keys(topic: str) -> SubjectKey:
    return topic + KEY


def topic_of(key: SubjectKey) -> str:
    """The topic that this subject belongs to, should there be one of that name."""
    return key.removesuffix(KEY) if key.endswith(KEY) else key.removesuffix(VALUE)


def check_subject_name(name: str) -> str:
    """The name of a subject that is to be made, or `InvalidSchema`."""
    if not name:
        raise _refused("a subject's name is not empty")
    if len(name) > NAME_LENGTH_MAX:
        raise _refused(f"a subject's name has at most {NAME_LENGTH_MAX} characters, this one has {len(name)}")
    if any(category(each) in ("Cc", "Cs") for each in name):
        raise _refused(f"subject {shortened(name)} has control characters or half a surrogate pair")
    return name


def _refused(fault: str) -> InvalidSchema:
    advice = f"choose a name of 1 to {NAME_LENGTH_MAX} printable characters"
    return InvalidSchema(f"{fault}; {advice}", error_code=INVALID_SUBJECT)


def folder_of(name: str) -> str:
    """The subject's name as that of a folder: percent-encoded, so that it leads nowhere else and no two subjects
    share one. A very long name is cut, and a checksum of all of it stands behind."""
    encoded = quote(name, safe="")
    encoded = "%2E" + encoded[1:] if encoded.startswith(".") else encoded
    if len(encoded) <= FOLDER_NAME_MAX:
        return encoded
    return f"{encoded[:FOLDER_NAME_MAX]}~{sha256(name.encode()).hexdigest()[:16]}"
