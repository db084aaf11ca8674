"""The answer to a fetch. The driver adds the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.errors import ErrorCode
from penstock.quorum.messages import FetchRequest, FetchResponse, OffsetAndEpoch, SnapshotId

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore


def answer_fetch(
    core: QuorumCore,
    request: FetchRequest,
    error: ErrorCode,
    *,
    read_from: int = -1,
    diverging_epoch: OffsetAndEpoch | None = None,
    snapshot_id: SnapshotId | None = None,
) -> None:
    core.outbox.respond(
        FetchResponse(
            request.request_id,
            error,
            core.epoch,
            core.leader_id,
            core.leader_peer,
            high_watermark=core.high_watermark,
            log_start_offset=core.log.start_offset,
            diverging_epoch=diverging_epoch,
            snapshot_id=snapshot_id,
            read_from=read_from,
        )
    )
