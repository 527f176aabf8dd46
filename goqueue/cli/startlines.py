"""The first and the last line of a broker's log."""

import logging
import os
from dataclasses import asdict
from typing import Any

from goqueue import __version__
from goqueue.actors.statistics.start import StartReport
from goqueue.cli.program.output import counted
from goqueue.cli.program.sizes import size_text

logger = logging.getLogger("goqueue.serve")


def tell_start(start: StartReport, data: str) -> None:
    path = os.path.abspath(data)
    counts = start.counts
    logger.info(
        "goqueue %s, node %s, data directory %s (%s), %s, %s, ready after %.3f s: %s",
        __version__,
        start.node,
        path,
        "new" if start.is_new else "existing",
        counted(counts.topics, "topic"),
        counted(counts.partitions, "partition"),
        start.seconds,
        "; ".join(_recovered(start)),
        extra={"facts": _facts(start, path)},
    )
    if start.is_new:
        logger.info("%s is a new data directory: no topics, no messages; another is named with --data", path)


def _facts(start: StartReport, path: str) -> dict[str, Any]:
    counts = start.counts
    return {
        "version": __version__,
        "node": start.node,
        "data": path,
        "is_new": start.is_new,
        "topics": counts.topics,
        "partitions": counts.partitions,
        "unavailable": counts.unavailable,
        "lost": counts.lost,
        **asdict(start.recovery),
        "seconds": round(start.seconds, 3),
    }


def _recovered(start: StartReport) -> list[str]:
    """What the opening took and found. What is wrong was logged by itself, with its place."""
    found, counts = start.recovery, start.counts
    said = [f"{counted(found.segments, 'segment')}, {size_text(found.scanned_bytes)} of them scanned"]
    said.append(f"{counted(found.torn_tails, 'torn tail')} cut off" if found.torn_tails else "no torn tail")
    said.append(f"{counted(found.damaged_ranges, 'damaged range')}" if found.damaged_ranges else "no damage")
    if counts.lost or counts.unavailable:
        said.append(f"{counts.lost} lost and {counts.unavailable} other unavailable partitions")
    return said


def tell_end(reason: str, seconds: float) -> None:
    logger.info(
        "stopped by %s after %.3f s; everything that was accepted is on disk",
        reason,
        seconds,
        extra={"facts": {"reason": reason, "uptime_seconds": round(seconds, 3)}},
    )
