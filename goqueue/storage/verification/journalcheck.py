"""Checks any file that holds a journal: what its owner would find lost when it opens it.

Some journals are known by their names: there a start expects a journal, whatever is left of it. A journal that was
cut between two entries looks as if it had never been longer: the claim beside it tells.
"""

from goqueue.errors import StorageError, UnknownFormat
from goqueue.storage.journals.claim import SUFFIX, is_sound_claim, read_claim
from goqueue.storage.journals.file import MAGIC, NEW, LostEntries, Replay, replay
from goqueue.storage.journals.groups import GROUPS, REGISTRY
from goqueue.storage.journals.journal import JOURNAL_SIZE_MAX
from goqueue.storage.log.volume import Volume
from goqueue.storage.snapshotlog.ledgers import JOURNAL
from goqueue.storage.verification.findings import Finding, FindingKind, JournalReport


def is_known_journal(path: str) -> bool:
    """The list of groups, or the ledgers of a partition's groups, as earlier versions wrote them."""
    *_, folder, name = path.removesuffix(NEW).split("/")
    return name == JOURNAL or (folder, name) == (GROUPS, REGISTRY)


async def check_journal(volume: Volume, path: str) -> JournalReport | None:
    """What a journal's file holds and lacks; None when it is no journal, or was removed meanwhile."""
    claim = await read_claim(volume, path)  # first: the journal of a running broker only grows
    try:
        data = await volume.read_whole(path, JOURNAL_SIZE_MAX)
        found = replay(data, claim=claim, is_new=path.endswith(NEW))
    except FileNotFoundError:
        return None
    except StorageError as error:
        kind = FindingKind.UNKNOWN_FORMAT if isinstance(error, UnknownFormat) else FindingKind.UNREADABLE
        return JournalReport(path, 0, 0, (Finding(kind, path, error.message),))
    if not is_known_journal(path) and not is_journal(data, found):
        return None
    return JournalReport(path, len(data), len(found.entries), _findings(path, len(data), found))


async def check_claim(volume: Volume, path: str) -> Finding | None:
    """Check the claim beside a journal: whether it is sound, and whether the journal is gone."""
    journal = path.removesuffix(SUFFIX)
    if not await is_sound_claim(volume, journal):
        text = "what was durable of the journal beside it is not known; the next start writes the claim anew"
        return Finding(FindingKind.CLAIM_DAMAGED, path, text)
    if volume.disk.exists(journal) or not await read_claim(volume, journal) or volume.disk.exists(journal):
        return None
    return Finding(FindingKind.LOST_JOURNAL, journal, "the file is gone; restore it from a backup")


def is_journal(data: bytes, found: Replay) -> bool:
    """By its first bytes or, when just these are damaged, by a sound entry behind them."""
    return data.startswith(MAGIC) or any(lost.end_position < len(data) for lost in found.lost)


def _findings(path: str, size: int, found: Replay) -> tuple[Finding, ...]:
    findings = [_lost(path, lost) for lost in found.lost]
    if found.sound_size < size:
        text = "torn tail, promised to nobody; it will be copied aside and cut when the journal is next opened"
        findings.append(Finding(FindingKind.TORN_TAIL, path, text, found.sound_size, size))
    return tuple(findings)


def _lost(path: str, lost: LostEntries) -> Finding:
    count = f"entries {lost.first} to {lost.next - 1} are" if lost.next > lost.first else "these bytes are"
    what = "not there any more" if lost.position == lost.end_position else "not sound any more"
    text = f"{count} {what}; restore the file from a backup"
    return Finding(FindingKind.LOST_ENTRIES, path, text, lost.position, lost.end_position)
