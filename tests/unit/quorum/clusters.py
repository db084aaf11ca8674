"""Several quorum drivers with logs in memory and a network that loses and delays requests, on a virtual clock."""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.net.request_errors import Disconnected, RequestFailed, RequestTimedOut
from penstock.protocol.codec import codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from penstock.protocol.types import Uuid
from penstock.quorum.driver import Quorum
from penstock.quorum.messages import Peer
from penstock.quorum.peers import OnDone
from penstock.quorum.settings import QuorumSettings
from penstock.quorum.snapshots import Snapshots
from penstock.quorum.state_file import QuorumStateFile
from penstock.quorum.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, Voters
from penstock.runtime import Workers
from penstock.runtime.disk import Disk, RealDisk
from simulator.loop import VirtualLoop, run_virtual
from unit.quorum.fakes import FixedClock, InlineWorkers, MemoryLog, Recorder

LISTENER = "CONTROLLER"
SETTLE_S = 10.0


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a virtual clock: ten seconds of timeouts pass in milliseconds."""

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        run_virtual(VirtualLoop(), test(**arguments))

    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    return run


class Member:
    """One node: what survives a crash, and the running driver."""

    def __init__(self, node_id: int, folder: Path, network: FakeNetwork) -> None:
        self.node_id = node_id
        self.folder = folder
        self.log = MemoryLog()
        self.recorder = Recorder()
        self.voter = Voter(
            ReplicaKey(node_id, Uuid(bytes([node_id]) * 16)),
            (VoterEndpoint(LISTENER, f"host{node_id}", 9093),),
        )
        self.image: MetadataImage = EMPTY_IMAGE
        self.quorum: Quorum | None = None
        self.cluster_id = "cluster"
        self._network = network

    async def start(
        self,
        voters: Voters = NO_VOTERS,
        *,
        settings: QuorumSettings | None = None,
        is_controller: bool = True,
        snapshot_disk: Disk | None = None,
        workers: Workers | None = None,
    ) -> Quorum:
        self.recorder = Recorder()
        self.folder.mkdir(exist_ok=True)
        self.quorum = Quorum(
            me=self.voter,
            log=self.log,
            state_file=QuorumStateFile(RealDisk(), str(self.folder)),
            snapshots=Snapshots(snapshot_disk or RealDisk(), str(self.folder)),
            clock=FixedClock(),
            workers=workers or InlineWorkers(),
            rng=random.Random(self.node_id),
            cluster_id=self.cluster_id,
            peers=FakePeers(self.node_id, self._network),
            settings=settings,
            initial_voters=voters,
            is_controller=is_controller,
            image=lambda: self.image,
        )
        self._network.members[self.node_id] = self
        await self.quorum.start(self.recorder)
        return self.quorum

    async def stop(self) -> None:
        if self.quorum is not None:
            await self.quorum.close()
        self.crash()

    def crash(self) -> None:
        """The process is gone: no answers; unsynced records are lost."""
        quorum, self.quorum = self.quorum, None
        if quorum is not None:
            for task in quorum._tasks:
                task.cancel()
        self.log.cut_power()

    @property
    def values(self) -> list[bytes]:
        return [value for batch in self.recorder.replayed for value in batch.values]


class FakeNetwork:
    def __init__(self) -> None:
        self.members: dict[int, Member] = {}
        self.cut: set[tuple[int, int]] = set()
        """Pairs (sender, receiver) whose requests get no answer."""
        self.delay_s = 0.001
        self.sent: list[tuple[int, int, str]] = []
        self.fails: list[str] = []
        """The next request of each of these types fails."""

    def isolate(self, node_id: int) -> None:
        for other in self.members:
            self.cut |= {(node_id, other), (other, node_id)}

    def heal(self) -> None:
        self.cut.clear()

    async def carry(self, sender: int, peer: Peer, request: Any) -> Any:
        """The response, after both messages went through their codecs."""
        receiver = peer.node_id
        if receiver < 0:
            receiver = int(peer.host.removeprefix("host"))
        self.sent.append((sender, receiver, type(request).__name__))
        await asyncio.sleep(self.delay_s)
        if (sender, receiver) in self.cut:
            await asyncio.Event().wait()
        if type(request).__name__ in self.fails:
            self.fails.remove(type(request).__name__)
            raise Disconnected("the connection was lost")
        member = self.members.get(receiver)
        if member is None or member.quorum is None:
            raise Disconnected(f"node {receiver} is down")
        version = declaration_of(type(request)).last_version
        if isinstance(request, ApiVersionsRequest):
            feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
            return ApiVersionsResponse(api_keys=[], supported_features=[feature])
        response = await member.quorum.handle(_over_the_wire(request, version), version=version)
        await asyncio.sleep(self.delay_s)
        if (receiver, sender) in self.cut:
            await asyncio.Event().wait()
        if member.quorum is None:
            raise Disconnected(f"node {receiver} is down")
        return _over_the_wire(response, version)


class FakePeers:
    def __init__(self, node_id: int, network: FakeNetwork) -> None:
        self._node_id = node_id
        self._network = network
        self._asking: set[asyncio.Task[None]] = set()

    def send(self, peer: Peer, request: Any, *, timeout_ms: int, on_done: OnDone) -> None:
        task = asyncio.get_running_loop().create_task(self._ask(peer, request, timeout_ms, on_done))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def close(self) -> None:
        for task in list(self._asking):
            task.cancel()

    async def _ask(self, peer: Peer, request: Any, timeout_ms: int, on_done: OnDone) -> None:
        failure: RequestFailed
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                response = await self._network.carry(self._node_id, peer, request)
        except TimeoutError:
            failure = RequestTimedOut(f"node {peer.node_id}")
        except RequestFailed as error:
            failure = error
        else:
            on_done(response, None)
            return
        on_done(None, failure)


class Cluster:
    def __init__(self, folder: Path, *, count: int = 3, settings: QuorumSettings | None = None) -> None:
        self.network = FakeNetwork()
        self.settings = settings
        self.members = [
            Member(node_id, folder / str(node_id), self.network) for node_id in range(1, count + 1)
        ]
        self.voters = Voters(member.voter for member in self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def __getitem__(self, node_id: int) -> Member:
        return next(member for member in self.members if member.node_id == node_id)

    async def start(self) -> None:
        for member in self.members:
            await member.start(self.voters, settings=self.settings)

    async def leader(self, *, but: tuple[int, ...] = ()) -> Member:
        """The member that leads and is announced, once there is one."""
        async with asyncio.timeout(SETTLE_S):
            while True:
                for member in self.members:
                    if member.node_id not in but and member.quorum is not None and member.quorum.is_leader:
                        return member
                await asyncio.sleep(0.01)

    async def until(self, is_true: Callable[[], bool], what: str) -> None:
        deadline = asyncio.get_running_loop().time() + SETTLE_S
        while not is_true():
            assert asyncio.get_running_loop().time() < deadline, f"waited in vain until {what}"
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        for member in self.members:
            member.crash()


def _over_the_wire(message: Any, version: int) -> Any:
    encoded = codec(type(message), version).encode(message)
    decoded, end = codec(type(message), version).decode(memoryview(encoded))
    assert end == len(encoded)
    return decoded
