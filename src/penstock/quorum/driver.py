"""The quorum in motion: saves, appends and syncs what the core asks for, and says what is committed.

One driver owns one metadata log. Appends are placed at once and in order; one sync serves all that were
appended before it began, and then the listener hears of the new high watermark. A disk that fails ends the
leadership: nothing more is committed, the listener is told, and `ended` carries the reason to whoever runs
the node.

This version runs quorums of one voter. More voters need their messages and timers here (Vote,
BeginQuorumEpoch, Fetch); the core counts votes and offsets for any number.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.quorum.control import leader_change_record, voters_records
from penstock.quorum.core import HardState, LeaderChange, QuorumCore, Ready
from penstock.quorum.log import (
    DataBatch,
    QuorumLog,
    build_control_batch,
    build_data_batch,
    find_voters,
    read_data,
)
from penstock.quorum.state_file import QuorumStateFile
from penstock.quorum.voters import ReplicaKey, Voter, Voters
from penstock.runtime import Clock, Lane, Workers

logger = logging.getLogger(__name__)


class QuorumRefused(Exception):
    """This node can not take part in the quorum that its log or its settings name."""


class NotLeader(Exception):
    """Only the leader appends."""


class QuorumListener(Protocol):
    def replay(self, batches: Iterator[DataBatch]) -> None:
        """What the log held when this node came to lead it, in order."""
        ...

    def committed(self, high_watermark: int) -> None:
        """Everything below is committed; what this node appended itself is not read back."""
        ...

    def resigned(self) -> None:
        """This node leads no more, and nothing else will be committed by it."""
        ...


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    key: ReplicaKey
    end_offset: int


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """What DescribeQuorum tells."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaProgress, ...]
    voter_details: tuple[Voter, ...]


class Quorum:
    def __init__(
        self,
        *,
        me: Voter,
        log: QuorumLog,
        state_file: QuorumStateFile,
        clock: Clock,
        workers: Workers,
    ) -> None:
        self._me = me
        self._log = log
        self._state_file = state_file
        self._clock = clock
        self._workers = workers
        self._listener: QuorumListener
        self._core: QuorumCore
        self._unsynced = asyncio.Event()
        self._syncing: asyncio.Task[None] | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when this node leads no more: with an exception if its disk failed."""
        self.failure: Exception | None = None
        """Why the metadata log failed, if it did."""

    async def start(self, listener: QuorumListener) -> None:
        """Lead the quorum, and replay what the log holds; returns when all of it is committed."""
        self._listener = listener
        saved = await self._workers.run(self._state_file.load) or HardState()
        stored_voters = find_voters(self._log)
        voters = stored_voters or Voters([self._me])
        self._check(voters)
        # The log may be ahead of the file, if the file was lost; an epoch is never used twice.
        state = saved if saved.epoch >= self._log.last_epoch else HardState(self._log.last_epoch)
        self._core = QuorumCore(self._me.key, voters, state, self._log.end_offset)
        replay_end_offset = self._log.end_offset
        elected = await self._elect()
        control = [leader_change_record(elected)]
        if stored_voters is None:
            control += voters_records(voters)
        self._append(build_control_batch(control, timestamp_ms=self._clock.wall_ms()))
        await self._sync()
        listener.replay(read_data(self._log, start_offset=0, end_offset=replay_end_offset))
        self._syncing = asyncio.create_task(self._sync_forever(), name="metadata log sync")

    def append(self, values: Sequence[bytes]) -> int:
        """Append records as one batch, all or nothing, and return the offset of the last one."""
        if not self.is_leader:
            raise NotLeader
        batch = build_data_batch(values, timestamp_ms=self._clock.wall_ms())
        try:
            return self._append(batch) - 1
        except Exception as error:
            self._fail(error)
            raise NotLeader from error

    @property
    def is_leader(self) -> bool:
        return self._core.is_leader

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def next_offset(self) -> int:
        """Where the next append begins."""
        return self._log.end_offset

    @property
    def high_watermark(self) -> int:
        return self._core.high_watermark

    def status(self) -> QuorumStatus:
        core = self._core
        known = {**core.synced_end_offsets, core.me.node_id: core.end_offset}
        return QuorumStatus(
            leader_id=core.hard_state.leader_id,
            epoch=core.epoch,
            high_watermark=core.high_watermark,
            voters=tuple(
                ReplicaProgress(voter.key, known.get(voter.key.node_id, -1)) for voter in core.voters
            ),
            voter_details=tuple(core.voters),
        )

    async def close(self) -> None:
        """Resign. What was appended and not yet synced is left to the next start."""
        if self._syncing is not None:
            self._syncing.cancel()
            await asyncio.gather(self._syncing, return_exceptions=True)
        self._resign(None)

    def _check(self, voters: Voters) -> None:
        if self._me.key not in voters:
            known = ", ".join(str(voter.key.node_id) for voter in voters)
            raise QuorumRefused(
                f"node {self._me.key.node_id} is no voter of its metadata log, whose voters are {known}"
            )
        if len(voters) > 1:
            raise QuorumRefused(
                f"the metadata log names {len(voters)} voters; this version runs quorums of one"
            )

    async def _elect(self) -> LeaderChange:
        campaign = self._core.campaign()
        await self._save(campaign)
        elected = self._core.state_saved(self._core.hard_state)
        await self._save(elected)
        assert elected.leader_change is not None, "the only voter elects itself"
        return elected.leader_change

    async def _save(self, ready: Ready) -> None:
        state = ready.hard_state
        assert state is not None
        await self._workers.run(lambda: self._state_file.save(state), lane=Lane.SYNC)

    def _append(self, batch: bytearray) -> int:
        end_offset = self._log.append(batch, epoch=self._core.epoch)
        self._core.appended(end_offset)
        self._unsynced.set()
        return end_offset

    async def _sync(self) -> None:
        self._unsynced.clear()
        end_offset = self._log.end_offset
        await self._log.sync()
        ready = self._core.synced(self._core.me.node_id, end_offset)
        if ready.high_watermark is not None:
            self._listener.committed(ready.high_watermark)

    async def _sync_forever(self) -> None:
        try:
            while True:
                await self._unsynced.wait()
                await self._sync()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        # The node logs the reason as an error when it hears of it through `ended`.
        logger.info("this node is no longer the active controller: %s", error or type(error).__name__)
        self.failure = error
        self._resign(error)

    def _resign(self, reason: Exception | None) -> None:
        if self.ended.done():
            return
        self._core.resign()
        self._listener.resigned()
        if reason is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(reason)
            self.ended.exception()  # it was said in the log; nobody has to be there to hear it again
