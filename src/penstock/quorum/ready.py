"""What passes between the core of the quorum and its driver: state to save, the view of the log, and `Ready`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.protocol.types import Buffer
from penstock.quorum.messages import (
    NO_NODE,
    LeaderAndEpoch,
    OffsetAndEpoch,
    Peer,
    Request,
    Response,
    SnapshotId,
)
from penstock.quorum.voters import ReplicaKey, Voters


@dataclass(frozen=True, slots=True)
class QuorumTimeouts:
    """The settings `controller.quorum.*.ms`."""

    election_ms: int = 1_000
    election_backoff_max_ms: int = 1_000
    fetch_ms: int = 2_000
    request_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    """How long the leader may hold a fetch if there is nothing new. Not a setting in Kafka, either."""


@dataclass(frozen=True, slots=True)
class HardState:
    """State that must be on disk before it takes effect."""

    epoch: int = 0
    leader_id: int = NO_NODE
    voted: ReplicaKey | None = None
    """The vote of this replica in `epoch`."""


class LogView(Protocol):
    """The own log, as the driver has it at this moment: unsynced records included, records in `Ready` not included."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; of the latest snapshot if the log is empty; else 0."""
        ...

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        """The oldest snapshot that is not older than the log."""
        ...

    @property
    def latest_snapshot(self) -> SnapshotId | None: ...

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch in the log that is not above `epoch`, and where it ends. If the log has none, the start of
        the log with the epoch of its snapshot, or (0, 0)."""
        ...


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """The first batch of an epoch: the leader, and the voters that elected it."""

    epoch: int
    leader_id: int
    voters: Voters
    granting: tuple[int, ...]
    write_voters: Voters | None = None
    """Voters that the batch contains too, with the KRaft version: those of the snapshot 0-0, which followers do not
    fetch, or with the leader's new endpoints."""


@dataclass(frozen=True, slots=True)
class VotersChange:
    """A VotersRecord that the leader appends."""

    epoch: int
    voters: Voters


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """Batches of the leader for the own log, which ends at `base_offset`. The driver checks them (CRC, offsets follow
    each other, epochs do not decrease) and calls `appended`, or `append_failed` if they are corrupt."""

    base_offset: int
    records: Buffer


class Send(NamedTuple):
    receiver: Peer
    request: Request


@dataclass(frozen=True, slots=True)
class Ready:
    """The next actions of the driver, in this order. What is None or empty needs no action.

    A `Ready` with `hard_state` has nothing else: the rest follows when the state is saved.
    """

    hard_state: HardState | None = None
    """Save it, then call `saved`."""
    truncate_to: int | None = None
    """Truncate the log to this end offset, then call `truncated`."""
    snapshot: SnapshotId | None = None
    """Fetch this snapshot from the leader. Call `snapshot_progress` after every piece, then `snapshot_installed` or
    `snapshot_failed`. Stop if `leader` comes."""
    append: LeaderChange | VotersChange | FetchedRecords | None = None
    """Append it, then call `appended`; later, when it is on disk, `synced`."""
    requests: tuple[Send, ...] = ()
    """Send them; `step` the responses, or `RequestFailed`."""
    responses: tuple[Response, ...] = ()
    """Send them as the responses of the requests with these ids."""
    high_watermark: int | None = None
    """All records below are committed."""
    leader: LeaderAndEpoch | None = None
    """The epoch or its leader changed."""


NOTHING = Ready()
