"""Recovers a damaged schema registry: keeps what can be read, and gives no id and no version again.

Messages carry ids, and readers remember versions. So those that lost entries may have given are passed over. An
entry gives one of each, unless it imported a schema under an id of another registry: then only an operator knows
how high the ids went. Where the beginning of the log is lost, nobody knows how many entries its snapshot stood for.
Then the numbers go on after a large gap, above whatever the files for people and the length of the log show.

A version whose references were lost is softly deleted, since no message can be held to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from goqueue.core.names import SCHEMAS_LOG
from goqueue.core.schemas.entries import entry_of
from goqueue.core.schemas.registry import ID_MAX, SchemaRegistry
from goqueue.core.schemas.schema import Reference, SchemaId, SchemaVersion
from goqueue.storage.directory.datadirectory import RECOVERED_SCHEMAS
from goqueue.storage.directory.recordlog import write_pieces
from goqueue.storage.directory.replacing import replace_log
from goqueue.storage.directory.schemafiles import SchemaFiles
from goqueue.storage.directory.schemalist import ReadRegistry, read_registry
from goqueue.storage.directory.storedschemas import SCHEMAS, packed
from goqueue.storage.log.volume import Volume
from goqueue.storage.slices import Slices
from goqueue.types import Microseconds

IDS_PASSED_OVER = 1_000_000
VERSIONS_PASSED_OVER = 1_000
"""Where the beginning of the log is lost."""


@dataclass(slots=True)
class RecoveredRegistry:
    registry: SchemaRegistry
    faults: list[str]
    """What is wrong with the log."""
    detached: list[SchemaVersion]
    """Versions whose references were lost."""
    is_same: bool
    """The log has no faults."""


async def recover_schemas(volume: Volume, data: str, *, ids_above: SchemaId = 0) -> RecoveredRegistry:
    """The registry as far as it can be read. Changes nothing on disk. `ids_above`: none up to this one is given."""
    there = await _read(volume, data)
    highest = SchemaFiles(volume, data).highest()
    if not volume.disk.is_directory(f"{data}/{SCHEMAS}") and highest:
        there.has_beginning = False
        there.faults.append(f"{data}/{SCHEMAS} is missing")
    if not (there.faults or ids_above or _is_cut_short(volume, data)):
        return RecoveredRegistry(there.registry, [], [], is_same=True)
    _pass_over(there, highest, ids_above)
    return RecoveredRegistry(there.registry, there.faults, list(_detach(there.registry)), is_same=False)


def _is_cut_short(volume: Volume, data: str) -> bool:
    """An earlier recovery ended between its two moves."""
    return volume.disk.exists(f"{data}/{RECOVERED_SCHEMAS}") and not volume.disk.exists(f"{data}/{SCHEMAS}")


async def _read(volume: Volume, data: str) -> ReadRegistry:
    if not volume.disk.is_directory(f"{data}/{SCHEMAS}"):
        return await read_registry(volume, f"{data}/{RECOVERED_SCHEMAS}/0")
    return await read_registry(volume, f"{data}/{SCHEMAS}/0")


def _pass_over(there: ReadRegistry, highest: int, ids_above: SchemaId) -> None:
    registry, named = there.registry, list(_numbers_in(there.refused))
    count = max([there.lost + len(there.refused), *(version for version, _ in named)])
    ids = max([ids_above, registry.next_id - 1 + count, *(schema_id for _, schema_id in named)])
    if not there.has_beginning:
        count = max(count, there.end_offset, highest) + VERSIONS_PASSED_OVER
        ids = max(ids, there.end_offset) + IDS_PASSED_OVER
    registry.apply(entry_of("lost", count=count, ids=min(ids, ID_MAX)))


def _numbers_in(refused: list[object]) -> Iterator[tuple[int, int]]:
    """Versions and ids that entries name which cannot be applied."""
    for entry in refused:
        if isinstance(entry, dict):
            version, schema_id = entry.get("version"), entry.get("id")
            yield version if isinstance(version, int) else 0, schema_id if isinstance(schema_id, int) else 0


def _detach(registry: SchemaRegistry) -> Iterator[SchemaVersion]:
    """A version that refers to one that is detached stays: it can be resolved."""
    for subject in list(registry):
        for version in subject.live():
            if not all(_is_there(registry, each) for each in version.schema.references):
                registry.apply(entry_of("deleted", subject=version.subject, versions=[version.version]))
                yield version


def _is_there(registry: SchemaRegistry, reference: Reference) -> bool:
    """With all that it refers to."""
    subject = registry.find(reference.subject)
    found = subject.versions.get(reference.version) if subject is not None else None
    return found is not None and all(_is_there(registry, each) for each in found.schema.references)


async def put_schemas_in_place(
    volume: Volume, data: str, registry: SchemaRegistry, now: Microseconds
) -> str | None:
    """Replace the log; returns where the old one was moved. The caller holds the directory's lock."""
    pieces = await packed(registry.moment(), Slices())
    write = partial(write_pieces, volume, pieces=pieces, now=now)
    return await replace_log(volume, data, SCHEMAS_LOG, RECOVERED_SCHEMAS, write)
