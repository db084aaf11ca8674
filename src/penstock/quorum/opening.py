"""What a node finds on its disk when it starts: the saved state, the newest snapshot, and the voters in the log.

Every batch after the snapshot is checked here. A damaged snapshot or log is `CorruptMetadataLog`: the node must not
start, because it has promised to have these records, and would vote as if it had.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.quorum.log import DataBatch, QuorumLog, voters_in
from penstock.quorum.messages import SnapshotId
from penstock.quorum.ready import HardState
from penstock.quorum.snapshots import CorruptSnapshot, Snapshots
from penstock.quorum.state_file import QuorumStateFile
from penstock.quorum.voters import Voters
from penstock.records import kernel
from penstock.records.errors import RecordsError
from penstock.runtime import Workers

logger = logging.getLogger(__name__)

SCAN_BYTES = 1 << 20

# A voter that forgot records which it has acknowledged could help to elect a leader without them.
VOTER_REMEDY = (
    "If this is the only controller, restore the folder {folder} from a backup. Otherwise do not just delete it: this "
    "controller has acknowledged these records. Remove it from the voters (kafka-metadata-quorum.sh "
    "remove-controller), format its directory again and add it. With static voters, stop the leader's node and copy "
    "the folder from there, without quorum-state"
)
OBSERVER_REMEDY = (
    "Delete the folder {folder} and start the node again: it fetches the metadata from the controllers"
)


class CorruptMetadataLog(Exception):
    """The metadata log or its newest snapshot is damaged."""


@dataclass(slots=True)
class Opened:
    """What the files of the metadata log contain at startup."""

    state: HardState | None
    """None if there is no file."""
    snapshot: tuple[SnapshotId, Iterator[DataBatch]] | None
    voters: list[tuple[int, Voters]]
    """The VotersRecords of the snapshot and of the log, with their offsets."""
    bytes_after_snapshot: int


async def open_quorum(
    log: QuorumLog,
    snapshots: Snapshots,
    state_file: QuorumStateFile,
    workers: Workers,
    *,
    is_controller: bool,
) -> Opened:
    state = await workers.run(state_file.load)
    await workers.run(snapshots.scan)
    found: tuple[SnapshotId, Iterator[DataBatch]] | None = None
    voters: list[tuple[int, Voters]] = []
    start_offset = log.start_offset
    latest = snapshots.latest
    remedy = (VOTER_REMEDY if is_controller else OBSERVER_REMEDY).format(folder=snapshots.folder)
    if latest is not None:
        try:
            head, batches = await workers.run(lambda: snapshots.load(latest))
        except CorruptSnapshot as error:
            raise CorruptMetadataLog(f"{error}. {remedy}") from error
        found = latest, batches
        if head.voters is not None:
            voters.append((latest.end_offset - 1, head.voters))
        if not _contains(log, latest):
            # The node stopped between the download of the snapshot and the truncation.
            logger.info("the metadata log goes on after its snapshot at offset %d", latest.end_offset)
            await log.truncate_fully(latest.end_offset)
        start_offset = latest.end_offset
    if start_offset < log.start_offset or (latest is None and log.start_offset > 0):
        raise CorruptMetadataLog(
            f"the metadata log in {snapshots.folder} starts at offset {log.start_offset}, but there is no "
            f"snapshot of the records before. {remedy}"
        )
    if max(log.end_offset, start_offset) < log.committed_offset:
        log.set_high_watermark(log.committed_offset)  # so that the next start finds it, too
        raise CorruptMetadataLog(
            f"the metadata log in {snapshots.folder} ends at offset {log.end_offset}, but it was committed up to "
            f"{log.committed_offset}: records are damaged or lost. {remedy}"
        )
    try:
        found_voters, size = await _scan(log, start_offset)
    except (RecordsError, ValueError) as error:
        raise CorruptMetadataLog(
            f"the metadata log in {snapshots.folder} is damaged: {error}. {remedy}"
        ) from error
    await log.prepare()
    return Opened(state, found, voters + found_voters, size)


def _contains(log: QuorumLog, snapshot: SnapshotId) -> bool:
    """Whether the log has the last record of the snapshot, or starts after it."""
    if snapshot.end_offset <= log.start_offset:
        return True
    found = log.end_of_epoch(snapshot.epoch)
    return found is not None and found[0] == snapshot.epoch and found[1] >= snapshot.end_offset


async def _scan(log: QuorumLog, start_offset: int) -> tuple[list[tuple[int, Voters]], int]:
    """The voters in the log from an offset on, and its size in bytes. Checks all batches."""
    voters: list[tuple[int, Voters]] = []
    size = 0
    offset = start_offset
    while offset < log.end_offset:
        chunk = await log.load(offset, max_bytes=SCAN_BYTES, end_offset=log.end_offset)
        headers = kernel.check_batches(chunk)
        expected, epoch = (headers[0].base_offset, headers[0].leader_epoch) if headers else (-1, -1)
        for header in headers:
            if header.base_offset != expected or header.leader_epoch < epoch:
                raise ValueError(f"the batch at offset {expected} claims to be at {header.base_offset}")
            expected, epoch = header.next_offset, header.leader_epoch
        if not headers or not headers[0].base_offset <= offset < expected:
            raise ValueError(f"there is no batch at offset {offset}")
        voters += voters_in(chunk, start_offset=offset)
        size += len(chunk)
        offset = expected
    return voters, size
