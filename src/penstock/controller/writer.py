"""Decide, append, wait until committed: how the active controller changes the metadata.

Decisions run one after the other, on the image of all appended records, committed or not. So a second CreateTopics of
the same name is refused even if the first one is still being written. There is no `await` between deciding, appending
and replaying, so no lock is needed. A response waits until its records are committed. By then the loader has published
the image that contains them, so a client that got the response sees its change.

When this node resigns, records that are not committed are dropped, and the requests that wait for them get
NOT_CONTROLLER. If the next leader commits the records all the same, the loader replays them like all others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.controller.outcome import Outcome
from penstock.controller.state import ControllerState
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.features import metadata_version
from penstock.metadata.framing import encode_record
from penstock.metadata.replay import ImageBuilder
from penstock.protocol.errors import ErrorCode
from penstock.quorum.driver import NotLeader, Quorum
from penstock.quorum.log import BATCH_BYTES_MAX

R = TypeVar("R")

RECORD_OVERHEAD_BYTES_MAX = 32  # lengths and deltas of a record in a batch
PENDING_MAX = 10_000  # appended but not committed batches; more means that the disk or the quorum is too slow
THIS_NODE = "this node"  # the requester in log lines

Decide = Callable[[ControllerState], Outcome[R]]


@dataclass(slots=True)
class _Pending:
    """One batch that is not committed yet."""

    last_offset: int
    delta: MetadataDelta
    requested_by: str
    waiters: dict[asyncio.Future[None], None] = field(
        default_factory=dict
    )  # a dict and not a set, for its order


class MetadataWriter:
    """Active between `begin` and `end`."""

    def __init__(
        self, quorum: Quorum, *, node_id: int, committed: Callable[[MetadataDelta, str], None]
    ) -> None:
        """`committed` gets each committed change, in order, and its requester."""
        self._quorum = quorum
        self._node_id = node_id
        self._publish = committed
        self._state: ControllerState | None = None
        self._pending: deque[_Pending] = deque()
        self._loop = asyncio.get_running_loop()

    @property
    def state(self) -> ControllerState | None:
        """None if this controller is not active."""
        return self._state

    def begin(self, state: ControllerState) -> None:
        assert not self._pending, "a controller that resigned has no pending changes"
        self._state = state

    def end(self) -> None:
        self._state = None
        dropped, self._pending = self._pending, deque()
        for waiter in [waiter for pending in dropped for waiter in pending.waiters]:
            if not waiter.done():
                waiter.set_exception(self.not_controller())

    def decide(self, decide: Decide[R], requested_by: str = THIS_NODE) -> Outcome[R]:
        """Make a decision and append its records. The response must wait until they are committed."""
        state = self._state
        if state is None:
            raise self.not_controller()
        if len(self._pending) >= PENDING_MAX:
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                "Too many changes wait for the metadata log; try again later.",
            )
        state.now_ms = int(self._loop.time() * 1000)
        state.next_offset = self._quorum.next_offset
        outcome = decide(state)
        if outcome.records:
            self._append(state, outcome, requested_by)
        return outcome

    async def until_committed(self, timeout_ms: int) -> None:
        """Wait until all appended records are committed. Also for a decision that changed nothing, because it may
        depend on uncommitted records."""
        if not self._pending:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        waiters = self._pending[-1].waiters
        waiters[waiter] = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter
        except TimeoutError as exc:
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The metadata log did not commit the change within {timeout_ms} ms; it may still be committed.",
            ) from exc
        finally:
            waiters.pop(waiter, None)  # requests that timed out must not pile up if the log is stuck

    def committed(self, high_watermark: int) -> None:
        """All records below are committed."""
        while self._pending and self._pending[0].last_offset < high_watermark:
            pending = self._pending.popleft()
            self._publish(pending.delta, pending.requested_by)
            for waiter in list(pending.waiters):
                if not waiter.done():
                    waiter.set_result(None)

    def not_controller(self) -> Refused:
        failure = self._quorum.failure
        if failure is None:
            return Refused(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
        return Refused(
            ErrorCode.NOT_CONTROLLER, f"The metadata log of node {self._node_id} failed: {failure}"
        )

    def _append(self, state: ControllerState, outcome: Outcome[R], requested_by: str) -> None:
        batches = list(_split(outcome.records, metadata_version(state.image)))
        if outcome.is_atomic and len(batches) > 1:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"The change is larger than {BATCH_BYTES_MAX} bytes in the metadata log; split the request.",
            )
        for records, values in batches:
            # Replay before the append: a record that cannot be replayed is a bug, and must not reach the log.
            builder = ImageBuilder(state.image)
            for record in records:
                builder.replay(record)
            last_offset = self._quorum.next_offset + len(values) - 1
            delta = builder.finish(offset=last_offset, epoch=self._quorum.epoch)
            try:
                appended_offset = self._quorum.append(values)
            except NotLeader as exc:
                raise self.not_controller() from exc
            assert appended_offset == last_offset, "only the controller appends records"
            state.apply(delta)
            self._pending.append(_Pending(last_offset, delta, requested_by))


def _split(records: Sequence[object], level: int) -> Iterator[tuple[list[object], list[bytes]]]:
    """Records and their encoded values, split into batches. `level` is the `metadata.version` of the cluster."""
    piece: list[object] = []
    values: list[bytes] = []
    size = 0
    for record in records:
        value = encode_record(record, level)
        needed = len(value) + RECORD_OVERHEAD_BYTES_MAX
        if values and size + needed > BATCH_BYTES_MAX:
            yield piece, values
            piece, values, size = [], [], 0
        piece.append(record)
        values.append(value)
        size += needed
    yield piece, values
