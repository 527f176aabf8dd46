"""What makes a schema incompatible with another one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference that breaks compatibility."""

    type: str
    """The name that Confluent's registry gives to it: `OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL`."""
    path: str
    """Where in the schema, as `#/properties/address/required`."""
    old: str
    """The keyword's value in the schema that wrote, as short JSON; empty where there is none."""
    new: str
    """The same in the schema that reads."""
    help: str
    """A sentence: what is wrong, and what would make it compatible."""
