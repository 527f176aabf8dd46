"""Checks whether the list of topics and groups can be read, and whether every partition in it is on disk."""

from goqueue.core.topics.metadata import KnownTopic
from goqueue.storage.directory.folders import TopicFolders
from goqueue.storage.directory.namedoffsets import CommittedOffsets
from goqueue.storage.directory.topiclist import LIST, read_topic_list
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.findings import Finding, FindingKind


async def check_topics(volume: Volume, data: str) -> list[Finding]:
    """One finding for each record that a start refuses, and for each partition that was lost.

    A running broker may delete a topic between two looks. So a partition that looks lost counts only if it does so
    in a second look, too.
    """
    findings = await _wrong(volume, data)
    return [each for each in await _wrong(volume, data) if each in findings] if findings else []


async def _wrong(volume: Volume, data: str) -> list[Finding]:
    folder = f"{data}/{LIST}/0"
    listed = await read_topic_list(volume, folder)
    folders = TopicFolders(volume, data, lambda _: None)
    committed = CommittedOffsets(volume, data)
    findings = [Finding(FindingKind.UNKNOWN_FORMAT, folder, each) for each in listed.refused]
    for topic in listed.metadata.topics:
        for number in topic.numbers:
            missing = await folders.loss_of(topic, number, committed)
            if missing is not None:
                findings.append(_finding(folders.partition(topic, number), topic, number, missing))
    return findings


def _finding(folder: str, topic: KnownTopic, number: int, missing: str) -> Finding:
    text = (
        f"partition {number} of topic {topic.name} is lost: {missing}; put the folder back, or run "
        f"`goqueue topic restore-partition {topic.name}/{number}` against the running broker"
    )
    return Finding(FindingKind.PARTITION_LOST, folder, text)
