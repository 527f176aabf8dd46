"""Checks whether the schema registry can be read."""

from goqueue.storage.directory.schemalist import read_registry
from goqueue.storage.directory.storedschemas import SCHEMAS
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.findings import Finding, FindingKind


async def check_schemas(volume: Volume, data: str) -> list[Finding]:
    """Findings for the records that a start refuses. Where others were lost, the check of the log says it."""
    folder = f"{data}/{SCHEMAS}/0"
    found = await read_registry(volume, folder)
    refused = found.faults if found.refused and not found.lost else ()
    return [Finding(FindingKind.UNKNOWN_FORMAT, folder, each) for each in refused]
