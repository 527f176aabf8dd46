"""The messages of who wants to know why things are as they are."""

from typing import NamedTuple

from goqueue.net.wire.fields import Name, Properties, Prose


class Why(NamedTuple):
    """Why is nothing delivered to this group, or to this member of it?"""

    group: Name
    member: Name | None = None


class Because(NamedTuple):
    """One sentence for a person, and the facts that it was made of for a program, `reason` among them."""

    why: Prose
    facts: Properties
