"""The sentence that helps: what is wrong, and what would make the schemas compatible."""

from goqueue.core.schemas.compatibility.comparison import Difference


def help_with(difference: Difference) -> str:
    return difference.type
