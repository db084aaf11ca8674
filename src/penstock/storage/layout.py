"""Names on disk, as Kafka gives them, and nothing else.

    <log.dir>/meta.properties, .lock, .kafka_cleanshutdown, *-checkpoint
    <log.dir>/<topic>-<partition>/00000000000000000000.{log,index,timeindex,txnindex,snapshot}
    <log.dir>/<topic>-<partition>/leader-epoch-checkpoint, partition.metadata

A topic's name becomes a folder's name here, so this is also the last place where a name that would leave the
directory is stopped.
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
TEMPORARY_SUFFIX = ".tmp"  # what `Disk.write_file` leaves behind when the power goes at the wrong moment

SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"

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
    """Offset and suffix, or None for a name that is not of this kind."""
    match = _SEGMENT_FILE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def check_topic(topic: str) -> None:
    """Refuse what is not one folder of ours; the broker refuses it earlier and more politely."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise ValueError(f"{topic!r} can not be the name of a topic")


def partition_folder(topic: str, partition: int) -> str:
    check_topic(topic)
    return f"{topic}-{partition}"


def marked_folder(topic: str, partition: int, *, unique: str, kind: str) -> str:
    """Name of a folder to be deleted, set aside or not in use yet. A long topic is shortened to fit."""
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
