"""Kafka's file and folder names.

    <log.dir>/meta.properties, .lock, .kafka_cleanshutdown, *-checkpoint
    <log.dir>/<topic>-<partition>/00000000000000000000.{log,index,timeindex,txnindex,snapshot}
    <log.dir>/<topic>-<partition>/leader-epoch-checkpoint, partition.metadata

A topic name becomes a folder name here, so this is the last check against names that would leave the directory.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"  # a compacted segment that is not complete yet
SWAP_SUFFIX = ".swap"  # a compacted segment that is complete, and not in its place yet
TEMPORARY_SUFFIX = ".tmp"  # left by `Disk.write_file` after a power cut

SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"

DELETE_DIRECTORY = "-delete"
STRAY_DIRECTORY = "-stray"
FUTURE_DIRECTORY = "-future"

NAME_BYTES_MAX = 255  # of one path component, on every file system that matters

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SEGMENT_FILE = re.compile(r"(\d{20})(\.\w+)")
_PARTITION_FOLDER = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]+?)-(?P<partition>\d+)(\.[0-9a-zA-Z]+(?P<kind>-delete|-stray|-future))?"
)


def segment_file(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """Offset and suffix, or None for other names."""
    match = _SEGMENT_FILE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def check_topic(topic: str) -> None:
    """Refuse a name that is not a single folder; the broker refuses it earlier with a better message."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise ValueError(f"{topic!r} is not a valid topic name")


def partition_folder(topic: str, partition: int) -> str:
    check_topic(topic)
    return f"{topic}-{partition}"


def marked_folder(topic: str, partition: int, *, unique: str, kind: str) -> str:
    """Name of a folder to be deleted, of a stray log or of a future log. A long topic name is shortened to fit."""
    check_topic(topic)
    end = f"-{partition}.{unique}{kind}"
    return topic[: NAME_BYTES_MAX - len(end)] + end


class PartitionFolder(NamedTuple):
    topic: str
    partition: int
    kind: str
    """Empty for a log in service, else one of the `*_DIRECTORY` endings."""


def parse_partition_folder(name: str) -> PartitionFolder | None:
    match = _PARTITION_FOLDER.fullmatch(name)
    if match is None:
        return None
    return PartitionFolder(match["topic"], int(match["partition"]), match["kind"] or "")
