"""The quorum on one node: builds the core and its parts, starts and stops them.

Parts: `opening` (what is on the disk at the start), `task` (owns the core and does what it decides), `replaying`
(committed records to the listener), `snapshotting` and `downloading` (snapshots), `serving` (requests of other nodes),
`peers` (requests to them).

If the disk fails, or the log is corrupt, this node resigns: the listener is notified, and `ended` gets the reason.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.protocol.types import uuid_text
from penstock.quorum.core import QuorumCore
from penstock.quorum.downloading import SnapshotDownload
from penstock.quorum.listener import QuorumListener
from penstock.quorum.log import QuorumLog, build_data_batch
from penstock.quorum.messages import LeaderAndEpoch, Peer
from penstock.quorum.opening import CorruptMetadataLog, Opened, open_quorum
from penstock.quorum.peers import NoPeers, Peers, Sender
from penstock.quorum.progress import ReplicaProgress
from penstock.quorum.ready import HardState
from penstock.quorum.replaying import Replayer
from penstock.quorum.roles.resigned import Resigned
from penstock.quorum.serving import QuorumServer
from penstock.quorum.settings import QuorumSettings
from penstock.quorum.snapshots import Snapshots
from penstock.quorum.snapshotting import Snapshotter
from penstock.quorum.state_file import QuorumStateFile
from penstock.quorum.status import QuorumStatus, ReplicaStatus
from penstock.quorum.strangers import QuorumRefused, Strangers
from penstock.quorum.task import QuorumTask
from penstock.quorum.view import StoredLogView
from penstock.quorum.voters import NO_VOTERS, Voter, VoterHistory, Voters
from penstock.runtime import Clock, Workers

__all__ = ["CorruptMetadataLog", "NotLeader", "Quorum", "QuorumListener", "QuorumRefused", "QuorumStatus"]

logger = logging.getLogger(__name__)

RESIGN_TIMEOUT_S = 1.0  # how long a leader that stops waits until the voters know it
POLL_S = 0.005  # only while stopping


class NotLeader(Exception):
    """Only the leader can append."""


class Quorum:
    def __init__(
        self,
        *,
        me: Voter,
        log: QuorumLog,
        state_file: QuorumStateFile,
        snapshots: Snapshots,
        clock: Clock,
        workers: Workers,
        rng: random.Random,
        cluster_id: str,
        peers: Peers | None = None,
        settings: QuorumSettings | None = None,
        is_controller: bool = True,
        auto_join: bool = False,
        initial_voters: Voters = NO_VOTERS,
        image: Callable[[], MetadataImage] = lambda: EMPTY_IMAGE,
    ) -> None:
        """`initial_voters`: the voters of a new cluster whose directories were not formatted. `image`: the committed
        image, for snapshots."""
        self._me = me
        self._log = log
        self._state_file = state_file
        self._snapshots = snapshots
        self._clock = clock
        self._workers = workers
        self._random = rng
        self._peers = peers or NoPeers()
        self._settings = settings or QuorumSettings()
        self._is_controller = is_controller
        self._auto_join = auto_join
        self._initial_voters = initial_voters
        self._image = image
        self._sender = Sender(
            cluster_id, self._settings.fetch_bytes_max, self._settings.snapshot_fetch_bytes_max
        )
        self._core: QuorumCore
        self._replayer: Replayer
        self._snapshotter: Snapshotter
        self._download: SnapshotDownload
        self._task: QuorumTask
        self._server = QuorumServer(
            cluster_id=cluster_id,
            log=log,
            snapshots=snapshots,
            workers=workers,
            leader_state=lambda: self._core,
            step=lambda message: self._task.step(message),
            fail=self._fail,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when this node has left the quorum; with an exception if its disk failed."""
        self.failure: Exception | None = None
        """The error of the metadata log, if it failed."""

    # -- start and stop

    async def start(self, listener: QuorumListener) -> None:
        """Read what is on the disk and join the quorum. With one voter, returns when this node leads and everything is
        replayed; with more, at once."""
        opened = await open_quorum(
            self._log,
            self._snapshots,
            self._state_file,
            self._workers,
            is_controller=self._is_controller,
        )
        records = opened.voters
        if not records and not self._settings.static_voters and self._initial_voters:
            records = [(-1, self._initial_voters)]
        history = VoterHistory(self._settings.static_voters, records)
        self._check(history.latest)
        self._replayer = Replayer(self._log, listener, start_offset=0, is_leader_of=self._is_leader_of)
        if opened.snapshot is not None:
            snapshot_id, batches = opened.snapshot
            self._replayer.load_snapshot(batches, snapshot_id)
        await self._log.sync()
        self._build(history, opened)
        for name, work in (
            ("quorum", self._task.run),
            ("metadata log sync", self._task.sync_forever),
            ("metadata replay", self._replayer.run),
        ):
            self._tasks.append(asyncio.get_running_loop().create_task(self._watch(work), name=name))
        if self._core.is_only_voter:
            announced = asyncio.ensure_future(self._replayer.is_announced.wait())
            futures: list[asyncio.Future[Any]] = [announced, self.ended]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            announced.cancel()
            if self.failure is not None:
                raise self.failure

    def _check(self, voters: Voters) -> None:
        """A controller with a new disk has lost its votes and its log, so it is not the voter any more."""
        key = self._me.key
        known = voters.get(key.node_id)
        if not self._is_controller or known is None or key in voters:
            return
        own, other = uuid_text(key.directory_id), uuid_text(known.key.directory_id)
        if len(voters) == 1:
            raise QuorumRefused(
                f"the only voter of the quorum is node {key.node_id} with another metadata directory: {other}, not "
                f"{own}; restore the directory with that id"
            )
        logger.warning(
            "node %d is a voter with the metadata directory %s, but it has the directory %s, so it does not vote; "
            "remove the voter and add this controller with kafka-metadata-quorum.sh",
            key.node_id,
            other,
            own,
        )

    def _build(self, history: VoterHistory, opened: Opened) -> None:
        settings = self._settings
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        core = self._core = QuorumCore(
            me=self._me.key,
            log=StoredLogView(self._log, self._snapshots),
            hard_state=opened.state or HardState(),
            history=history,
            random=self._random,
            now_ms=now_ms,
            timeouts=settings.timeouts,
            listener=settings.listener,
            endpoints=self._me.endpoints if self._is_controller else (),
            bootstrap=settings.bootstrap,
            can_vote=self._is_controller,
            auto_join=self._auto_join,
            committed_offset=self._log.committed_offset,
        )
        core.synced(self._log.end_offset, now_ms)
        self._snapshotter = Snapshotter(
            snapshots=self._snapshots,
            log=self._log,
            settings=settings,
            image=self._image,
            voters=lambda: core.history,
            clock=self._clock,
            workers=self._workers,
            bytes_after_snapshot=opened.bytes_after_snapshot,
        )
        self._download = SnapshotDownload(
            me=self._me.key,
            core=core,
            peers=self._peers,
            sender=self._sender,
            snapshots=self._snapshots,
            workers=self._workers,
            post=lambda event: self._task.post(event),
            fail=self._fail,
        )
        self._task = QuorumTask(
            core,
            log=self._log,
            state_file=self._state_file,
            clock=self._clock,
            workers=self._workers,
            peers=self._peers,
            sender=self._sender,
            server=self._server,
            replayer=self._replayer,
            snapshotter=self._snapshotter,
            download=self._download,
            strangers=Strangers(self._me.endpoints, self._sender.cluster_id),
        )

    async def close(self) -> None:
        """Leave the quorum. A leader resigns and tells the others, so that they elect a successor at once."""
        if not self.ended.done() and self._tasks and self._core.is_leader and not self._core.is_only_voter:
            self._task.post(self._core.resign)
            try:
                async with asyncio.timeout(RESIGN_TIMEOUT_S):
                    await self._wait_until(lambda: self._is_resignation_known)
            except TimeoutError:
                logger.info("not all voters have acknowledged that this node resigned")
        await self._stop()
        if not self.ended.done():
            self.ended.set_result(None)

    @property
    def _is_resignation_known(self) -> bool:
        role = self._core.role
        return role.is_done if isinstance(role, Resigned) else not self._core.is_leader and self._task.is_idle

    async def _wait_until(self, is_true: Callable[[], bool]) -> None:
        """Or until the quorum has ended."""
        while not is_true() and not self.ended.done():
            await asyncio.sleep(POLL_S)

    async def _stop(self) -> None:
        self._server.close()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if tasks:
            await self._download.close()
            await self._snapshotter.close()
            self._replayer.resign()
        await self._peers.close()

    async def _watch(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A part that fails ends the quorum on this node."""
        try:
            await work()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self.ended.done():
            return
        # The node logs the reason as an error, from `ended`.
        logger.info("this node leaves the metadata quorum: %s", str(error) or type(error).__name__)
        self.failure = error
        self._replayer.resign()
        self._server.close()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        self.ended.set_exception(error)
        self.ended.exception()  # mark it as retrieved: it is already logged
        if not self._core.is_only_voter:
            self._core.resign(self._task.now_ms())
            for send in self._core.ready().requests:
                self._task.send(send)

    # -- for the controller and the node

    def append(self, values: Sequence[bytes]) -> int:
        """As leader: append records as one batch, all or nothing, and return the offset of the last one."""
        if not self.is_leader:
            raise NotLeader
        batch = build_data_batch(values, timestamp_ms=self._clock.wall_ms())
        try:
            return self._task.append(batch) - 1
        except Exception as error:
            self._fail(error)
            raise NotLeader from error

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and can append: between `elected` and `resigned`."""
        epoch = self._replayer.active_epoch
        return epoch is not None and self._is_leader_of(epoch)

    def _is_leader_of(self, epoch: int) -> bool:
        """Whether this node leads in this epoch, announced or not."""
        return self._core.is_leader and self._core.epoch == epoch

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def leader(self) -> LeaderAndEpoch:
        return self._core.leader

    @property
    def leader_peer(self) -> Peer | None:
        """The node and address of the leader, if it is known."""
        return self._core.leader_peer

    @property
    def kraft_version(self) -> int:
        """0 if the voters are static, 1 if they are in the log."""
        return self._core.history.kraft_version

    @property
    def next_offset(self) -> int:
        """The offset of the next append."""
        return self._log.end_offset

    @property
    def high_watermark(self) -> int:
        return self._core.high_watermark

    async def handle(self, request: Any, *, version: int) -> Any:
        """The response to a request of another node, such as Vote or Fetch."""
        return await self._server.handle(request, version=version)

    def status(self) -> QuorumStatus:
        core, wall_ms, now_ms = self._core, self._clock.wall_ms(), self._task.now_ms()

        def describe(replica: ReplicaProgress) -> ReplicaStatus:
            if replica.key.node_id == self._me.key.node_id:
                return ReplicaStatus(replica.key, self._log.end_offset, wall_ms, wall_ms)
            fetch_ms, caught_up_ms = (
                -1 if at_ms < 0 else wall_ms - (now_ms - at_ms)
                for at_ms in (replica.last_fetch_ms, replica.last_caught_up_ms)
            )
            return ReplicaStatus(replica.key, replica.end_offset, fetch_ms, caught_up_ms)

        replicas = list(map(describe, core.replicas))
        return QuorumStatus(
            leader_id=core.leader.leader_id,
            epoch=core.epoch,
            high_watermark=core.high_watermark,
            voters=tuple(each for each in replicas if each.key in core.voters),
            voter_details=tuple(core.voters),
            observers=tuple(each for each in replicas if each.key not in core.voters),
        )
