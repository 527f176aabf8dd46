"""Checks whether every partition in the list of topics is on disk."""

from goqueue.core.topics.metadata import KnownTopic
from goqueue.storage.directory.folders import TopicFolders
from goqueue.storage.directory.namedoffsets import CommittedOffsets
from goqueue.storage.directory.topiclist import LIST, read_topic_list
from goqueue.storage.log.volume import Volume
from goqueue.storage.verification.findings import Finding, FindingKind


async def check_topics(volume: Volume, data: str) -> list[Finding]:
    """One finding for each partition that was lost.

    A running broker may delete a topic between two looks. So a partition that looks lost counts only if it does so
    in a second look, too.
    """
    findings = await _lost(volume, data)
    return [each for each in await _lost(volume, data) if each in findings] if findings else []


async def _lost(volume: Volume, data: str) -> list[Finding]:
    listed = await read_topic_list(volume, f"{data}/{LIST}/0")
    folders = TopicFolders(volume, data, lambda _: None)
    committed = CommittedOffsets(volume, data)
    findings = []
    for topic in listed.metadata:
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
