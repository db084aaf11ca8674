"""`bootstrap.checkpoint`: the first records of a new cluster, in a log directory that was formatted (KIP-778).

The first leader of a new cluster writes them to the metadata log. Later the file has no meaning. Its format is that of
a snapshot without voters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from penstock.metadata.errors import CorruptMetadata
from penstock.metadata.framing import decode_record, encode_record
from penstock.quorum.snapshot_format import CorruptSnapshot, SnapshotHead, read_snapshot, snapshot_batches
from penstock.runtime.disk import Disk

FILE_NAME = "bootstrap.checkpoint"


def read_bootstrap(disk: Disk, directory: str) -> list[object] | None:
    """The records in the directory of the metadata log, or None if it was not formatted. Raises CorruptSnapshot."""
    path = os.path.join(directory, FILE_NAME)
    if not disk.exists(path):
        return None
    try:
        _, batches = read_snapshot(disk.read_file(path), path)
        return [decode_record(value) for batch in batches for value in batch.values]
    except (CorruptSnapshot, CorruptMetadata) as error:
        raise CorruptSnapshot(f"{error}. Format the directory again, or delete {path}") from error


def write_bootstrap(disk: Disk, directory: str, records: Iterable[object], *, now_ms: int) -> None:
    head = SnapshotHead(None, 0, last_timestamp_ms=0)
    values = [encode_record(record) for record in records]
    batches = snapshot_batches(head, values, epoch=0, now_ms=now_ms)
    disk.write_file(os.path.join(directory, FILE_NAME), b"".join(batches))
