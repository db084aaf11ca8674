"""Replica fetchers: this node's followers fetch from their leaders.

There are `num.replica.fetchers` fetchers for each leader, each with one connection and one fetch session. `fetcher`
decides; this module sends, and does the work that must not run on the event loop: truncation, loading of pages. A
response is applied in the iteration of the event loop in which it arrives, and the next request is sent at once,
because a follower's fetch acknowledges what it has.

`apply` must be called after `PartitionTable.apply`, with the same change.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from zlib import crc32

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import NO_LEADER, MetadataImage
from penstock.metadata.resources import ResourceType
from penstock.net.node_connections import NodeAddress, NodeConnections
from penstock.net.request_connection import RequestConnection
from penstock.net.request_errors import RequestFailed
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from penstock.protocol.types import Uuid
from penstock.replication.fetcher import FetcherCore, FetchSettings, Key, Work
from penstock.replication.following import Following
from penstock.replication.offset_reset import find_resets
from penstock.replication.partition import Partition
from penstock.replication.quota import ReplicationQuota
from penstock.replication.table import PartitionTable
from penstock.replication.truncating import Truncator
from penstock.replication.validation import SettingsSource
from penstock.runtime import Runtime
from penstock.storage.pages import PageLoader

logger = logging.getLogger(__name__)

APPENDED_PER_TURN = 1 << 20  # bytes per iteration of the event loop: about a millisecond
FETCH = api(ApiKey.FETCH)

Response = Iterator[tuple[Uuid, PartitionData]]


class ReplicaFetchers:
    """All replica fetchers of a node."""

    def __init__(
        self,
        *,
        node_id: int,
        runtime: Runtime,
        partitions: PartitionTable,
        connections: NodeConnections,
        settings: Callable[[], SettingsSource],
        listener: str,
        broker_epoch: Callable[[], int],
    ) -> None:
        """`listener` is the inter-broker listener, `broker_epoch` that of this broker's last registration."""
        self.node_id = node_id
        self.runtime = runtime
        self.partitions = partitions
        self.connections = connections
        self.broker_epoch = broker_epoch
        self.truncator = Truncator(runtime.workers)
        self.quota = ReplicationQuota(lambda: settings().get("follower.replication.throttled.rate"))
        self.socket_timeout_s = 30.0
        self.fetch_settings = FetchSettings()
        self._settings = settings
        self._listener = listener
        self._fetchers_per_leader = 1
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._assigned: dict[Key, Fetcher] = {}
        self._is_closed = False
        self._read_settings()

    def apply(self, delta: MetadataDelta) -> None:
        """Follow the leaders in the metadata."""
        if self._is_closed:
            return
        if any(resource.type == ResourceType.BROKER for resource in delta.configs):
            self._read_settings()
        for topic_id, change in delta.topics.items():
            if change.after is None:
                deleted = change.before.partitions if change.before is not None else ()
                for index in range(len(deleted)):
                    self._remove((topic_id, index))
            else:
                for index in change.changed_partitions:
                    self._follow((topic_id, index))
        for fetcher in [each for each in self._fetchers.values() if each.leader in delta.brokers]:
            fetcher.wake()

    def address_of(self, node_id: int) -> NodeAddress | None:
        image: MetadataImage = self.partitions.image
        broker = image.brokers.get(node_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        return None if endpoint is None else NodeAddress(node_id, endpoint.host, endpoint.port)

    async def close(self) -> None:
        self._is_closed = True
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._assigned.clear()
        for fetcher in fetchers:
            await fetcher.close()

    def _follow(self, key: Key) -> None:
        partition = self.partitions.get_by_id(*key)
        if partition is None or partition.is_leader or partition.is_offline or partition.leader == NO_LEADER:
            self._remove(key)
            return
        place = (partition.leader, _fetcher_index(key, self._fetchers_per_leader))
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = Fetcher(self, *place)
        if self._assigned.get(key) is not fetcher:
            self._remove(key)
            self._assigned[key] = fetcher
        fetcher.follow(partition)

    def _remove(self, key: Key) -> None:
        fetcher = self._assigned.pop(key, None)
        if fetcher is not None:
            fetcher.core.remove(key)
            if not len(fetcher.core):
                self._fetchers.pop((fetcher.leader, fetcher.index), None)
                fetcher.end()

    def _read_settings(self) -> None:
        settings = self._settings()
        self.socket_timeout_s = settings.get("replica.socket.timeout.ms") / 1000
        self.fetch_settings = FetchSettings(
            wait_ms_max=settings.get("replica.fetch.wait.max.ms"),
            min_bytes=settings.get("replica.fetch.min.bytes"),
            partition_bytes_max=settings.get("replica.fetch.max.bytes"),
            response_bytes_max=settings.get("replica.fetch.response.max.bytes"),
            backoff_ms=settings.get("replica.fetch.backoff.ms"),
        )
        fetchers_per_leader: int = settings.get("num.replica.fetchers")
        if fetchers_per_leader != self._fetchers_per_leader:
            self._fetchers_per_leader = fetchers_per_leader
            for key in list(self._assigned):
                self._follow(key)


def _fetcher_index(key: Key, count: int) -> int:
    return (crc32(key[0]) + key[1]) % count


class Fetcher:
    """One connection to one leader."""

    def __init__(self, owner: ReplicaFetchers, leader: int, index: int) -> None:
        self.leader = leader
        self.index = index
        self.core = FetcherCore(owner.node_id, owner.fetch_settings, quota=owner.quota)
        self._owner = owner
        self._runtime = owner.runtime
        self._loop = asyncio.get_running_loop()
        self._purpose = f"replica fetcher {index}"
        self._connection: RequestConnection | None = None
        """That of the requests in flight."""
        self._connecting: asyncio.Task[None] | None = None
        self._responses: deque[tuple[int, Response]] = deque()
        """Responses that are not applied completely, with the numbers of their requests."""
        self._is_woken = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ended = False

    def follow(self, partition: Partition) -> None:
        known = self.core.get((partition.topic_id, partition.index))
        if (
            known is None
            or not isinstance(known.replica, Following)
            or known.replica.partition is not partition
            or known.leader_epoch != partition.leader_epoch
        ):
            self.core.add(Following(partition))
            self.wake()

    def wake(self) -> None:
        """Look for something to fetch, soon: many partitions may be added at once."""
        if not self._is_woken and not self._is_ended:
            self._is_woken = True
            self._loop.call_soon(self._pump)

    def end(self) -> None:
        """Nothing is left to fetch."""
        self._is_ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        for task in self._tasks:
            task.cancel()
        self._responses.clear()
        self._owner.connections.drop(self.leader, self._purpose)

    async def close(self) -> None:
        self.end()
        ending = [*self._tasks, *([] if self._connecting is None else [self._connecting])]
        await asyncio.gather(*ending, return_exceptions=True)

    # -- requests

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _pump(self) -> None:
        """Send what is to be sent."""
        self._is_woken = False
        if self._is_ended or self._responses:
            return
        address = self._owner.address_of(self.leader)
        if address is None:
            return  # the metadata will bring it
        connection = self._owner.connections.connection(address, self._purpose)
        if connection is None:
            self._connect()
            return
        try:
            while (
                request := self.core.next_request(self._now_ms(), broker_epoch=self._owner.broker_epoch())
            ) is not None:
                self._send(connection, request)
        except RequestFailed as error:
            self._failed(error)
        for key in self.core.take_unflushed():
            following = self._following(key)
            if following is not None:
                following.partition.on_durable = partial(self._flushed, following)
                self._flushed(following)
        self._set_timer()

    def _send(self, connection: RequestConnection, request: FetchRequest) -> None:
        version = connection.version_for(FETCH)
        body = codec(FetchRequest, version).encode_parts(request)
        timeout_s = self._owner.socket_timeout_s
        self._connection = connection
        answered = partial(self._answered, connection)
        connection.send_encoded(FETCH, version, body, answered, timeout_s=timeout_s)

    def _set_timer(self) -> None:
        """Look again when the next backoff ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        until_ms = self.core.next_ms
        if until_ms is not None:
            self._timer = self._loop.call_at((until_ms + 1) / 1000, self.wake)

    def _connect(self) -> None:
        if self._connecting is None or self._connecting.done():
            name = f"connect replica fetcher {self.index} to broker {self.leader}"
            self._connecting = self._runtime.supervisor.run(name, self._connect_until_open)

    async def _connect_until_open(self) -> None:
        failures = 0
        while (address := self._owner.address_of(self.leader)) is not None:
            try:
                await self._owner.connections.connect(address, self._purpose)
                break
            except RequestFailed as error:
                failures += 1
                if failures == 1:
                    logger.warning("cannot fetch from broker %d: %s; trying again", self.leader, error)
        self.wake()

    # -- responses

    def _answered(
        self, connection: RequestConnection, response: FetchResponse | None, error: Exception | None
    ) -> None:
        if self._is_ended or connection is not self._connection:
            return
        try:
            if response is None:
                self._failed(error)
                return
            number, error_code = self.core.begin_response(response)
            if error_code == ErrorCode.NONE:
                partitions = (
                    (topic.topic_id, data) for topic in response.responses for data in topic.partitions
                )
                self._responses.append((number, partitions))
                if len(self._responses) == 1:
                    self._apply_responses()
            else:
                self._pump()
        except Exception as failure:
            logger.exception("a fetch response of broker %d cannot be applied; connecting again", self.leader)
            self._failed(failure)

    def _failed(self, error: Exception | None) -> None:
        """Connect again: a response that may still come on the old connection means nothing any more."""
        logger.debug("the fetch from broker %d failed: %s", self.leader, error)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._responses.clear()
        self.core.disconnected()
        self.wake()

    def _apply_responses(self) -> None:
        """Append what has arrived, in slices that do not delay other work, then fetch more."""
        work = Work()
        appended_bytes = 0
        now_ms, wall_ms = self._now_ms(), self._runtime.clock.wall_ms()
        while self._responses:
            number, partitions = self._responses[0]
            for topic_id, data in partitions:
                appended_bytes += self.core.handle_partition(
                    number, topic_id, data, work, now_ms=now_ms, wall_ms=wall_ms
                )
                if appended_bytes >= APPENDED_PER_TURN:
                    self._loop.call_soon(self._apply_more)
                    self._start(work)
                    return
            self._responses.popleft()
        self._start(work)
        self._pump()

    def _apply_more(self) -> None:
        if self._responses and not self._is_ended:
            try:
                self._apply_responses()
            except Exception as failure:
                logger.exception(
                    "a fetch response of broker %d cannot be applied; connecting again", self.leader
                )
                self._owner.connections.drop(self.leader, self._purpose)
                self._failed(failure)

    # -- work for busy partitions

    def _start(self, work: Work) -> None:
        if not work:
            return
        for key, offset in work.truncations:
            following = self._following(key)
            if following is not None:
                self._truncate(following, offset)
        for key, piece in work.loads:
            following = self._following(key)
            if following is not None:
                PageLoader(self._runtime.workers).load([piece], partial(self._loaded, following))
        if work.resets:
            replicas = [following for key in work.resets if (following := self._following(key)) is not None]
            task = self._runtime.supervisor.run(
                f"reset offsets of followers of broker {self.leader}", partial(self._reset, replicas)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _loaded(self, following: Following, error: BaseException | None) -> None:
        self._ended(following, is_well=error is None)

    def _truncate(self, following: Following, offset: int, *, is_full: bool = False) -> None:
        self._owner.truncator.truncate(
            following, offset, lambda is_well: self._ended(following, is_well=is_well), is_full=is_full
        )

    def _ended(self, following: Following, *, is_well: bool) -> None:
        """The work for a busy partition ended. It means nothing if the partition was added again meanwhile: in its new
        leader epoch it may be busy with something else."""
        key = (following.topic_id, following.index)
        if self._is_ended or self._following(key) is not following:
            return
        if is_well:
            self.core.ready(key)
        else:
            self.core.failed(key, self._now_ms())
        self.wake()

    def _flushed(self, following: Following) -> None:
        partition = following.partition
        if not partition.is_offline and following.is_durable:
            partition.on_durable = None
            self._ended(following, is_well=True)

    async def _reset(self, replicas: list[Following]) -> None:
        """The fetch offsets are out of range: truncate to where the leader's logs begin or end."""
        address = self._owner.address_of(self.leader)
        bounds = {}
        if address is not None:
            ask = partial(
                self._owner.connections.ask, address, self._purpose, timeout_s=self._owner.socket_timeout_s
            )
            try:
                bounds = await find_resets(ask, replicas, node_id=self._owner.node_id)
            except RequestFailed as error:
                logger.debug("broker %d did not tell its offsets: %s", self.leader, error)
        for following in replicas:
            key = (following.topic_id, following.index)
            reset = bounds.get(key)
            if reset is None or self._following(key) is not following:
                self._ended(following, is_well=False)
            else:
                self._truncate(following, reset.offset, is_full=reset.is_full)

    def _following(self, key: Key) -> Following | None:
        known = self.core.get(key)
        replica = None if known is None else known.replica
        return replica if isinstance(replica, Following) else None
