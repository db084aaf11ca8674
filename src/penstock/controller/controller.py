"""The controller in motion: decide, append, wait until committed, answer.

Decisions run one after the other, on the image of everything that was appended so far, committed or not; so a
second CreateTopics of the same name is refused although the first is still being written. Deciding, appending
and replaying happen without an await between them, which is all the locking there is. A response is kept back
until its records are committed, and by then `cache` holds the image that contains them: whoever got the
answer finds what it says.

When the quorum's log fails, or another node leads, whatever was appended and not committed is forgotten, and
those who wait for it are told NOT_CONTROLLER, with the error of the disk if there was one.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.controller import brokers, changes, configs, features, partitions, producer_ids, topics
from penstock.controller.brokers import Registration
from penstock.controller.configs import Alteration
from penstock.controller.outcome import Outcome
from penstock.metadata.cache import MetadataCache
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.framing import decode_record, encode_record
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.replay import ImageBuilder
from penstock.metadata.settings import DynamicSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from penstock.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_topics import DeleteTopicsResponse, DeleteTopicState
from penstock.protocol.messages.update_features import UpdateFeaturesRequest
from penstock.protocol.types import Uuid
from penstock.quorum.driver import NotLeader, Quorum, QuorumStatus
from penstock.quorum.log import BATCH_BYTES_MAX, DataBatch

R = TypeVar("R")

RECORD_OVERHEAD_BYTES_MAX = 32  # lengths and deltas round a record's value in a batch
OWN_TIMEOUT_MS = 30_000  # for what the node itself asks
THIS_NODE = "this node"  # requested the change, in the log
PENDING_MAX = 10_000  # appended and not committed; more means that the disk does not keep up


@dataclass(slots=True)
class _Pending:
    """One batch on its way to being committed."""

    last_offset: int
    delta: MetadataDelta
    requested_by: str
    waiters: dict[asyncio.Future[None], None] = field(default_factory=dict)  # in order; a set would have none


class Controller:
    def __init__(
        self,
        *,
        node_id: int,
        quorum: Quorum,
        cache: MetadataCache,
        settings: DynamicSettings,
        rng: random.Random,
    ) -> None:
        self._node_id = node_id
        self._quorum = quorum
        self._cache = cache
        self._settings = settings
        self._random = rng
        self._image = EMPTY_IMAGE
        """Everything that was appended; runs ahead of `cache.image`, which is what was committed."""
        self._pending: deque[_Pending] = deque()

    async def start(self) -> None:
        """Lead the quorum, replay its log, and, in a new cluster, write down what it starts with."""
        await self._quorum.start(self)
        if not self._image.features:
            await self._run(
                lambda image: features.first_records(self._settings.of_broker(image)), OWN_TIMEOUT_MS
            )

    async def join(
        self,
        registration: Registration,
        *,
        controller: Registration | None = None,
        keeps_epochs: bool = False,
        offline: Collection[tuple[Uuid, int]] = (),
    ) -> int:
        """Register this node and let it in; returns its broker epoch. See `brokers.unfence_broker` for
        `keeps_epochs` and `offline`. All of it shares one sync, because a starting node waits for it."""
        if controller is not None:
            self._decide(lambda image: brokers.register_controller(controller))
        broker_epoch = self._decide(
            lambda image: brokers.register_broker(image, registration, broker_epoch=self._quorum.next_offset)
        )
        self._decide(
            lambda image: brokers.unfence_broker(
                image,
                registration.node_id,
                broker_epoch=broker_epoch,
                keeps_epochs=keeps_epochs,
                offline=offline,
            )
        )
        await self._committed(OWN_TIMEOUT_MS)
        return broker_epoch

    async def directories_failed(
        self,
        node_id: int,
        *,
        online: Sequence[Uuid],
        offline: Collection[tuple[Uuid, int]],
        timeout_ms: int,
    ) -> None:
        """The node has only the directories `online` left, and its replicas of the partitions `offline` are lost."""
        await self._run(
            lambda image: brokers.fail_directories(image, node_id, online=online, offline=offline), timeout_ms
        )

    async def close(self) -> None:
        await self._quorum.close()

    # What others ask

    async def create_topics(
        self, request: CreateTopicsRequest, *, requested_by: str = THIS_NODE
    ) -> CreateTopicsResponse:
        return await self._run(
            lambda image: topics.create_topics(
                image, request, settings=self._settings.of_broker(image), rng=self._random
            ),
            request.timeout_ms,
            requested_by,
        )

    async def create_topics_automatically(
        self, names: Sequence[str], *, requested_by: str = THIS_NODE
    ) -> dict[str, ErrorCode]:
        """Create topics that somebody asked about; the answer has those that could not be, and why."""
        image = self._image
        request = topics.automatic_topics(
            names, self._settings.of_broker(image), broker_count=len(image.brokers)
        )
        request.timeout_ms = OWN_TIMEOUT_MS
        response = await self.create_topics(request, requested_by=requested_by)
        fine = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        return {topic.name: topic.error_code for topic in response.topics if topic.error_code not in fine}

    async def delete_topics(
        self,
        wanted: Sequence[DeleteTopicState],
        *,
        timeout_ms: int,
        version: int,
        requested_by: str = THIS_NODE,
    ) -> DeleteTopicsResponse:
        def decide(image: MetadataImage) -> Outcome[DeleteTopicsResponse]:
            is_enabled = self._settings.of_broker(image).get("delete.topic.enable")
            return topics.delete_topics(image, wanted, is_enabled=is_enabled, version=version)

        return await self._run(decide, timeout_ms, requested_by)

    async def create_partitions(
        self, request: CreatePartitionsRequest, *, requested_by: str = THIS_NODE
    ) -> CreatePartitionsResponse:
        return await self._run(
            lambda image: partitions.create_partitions(image, request, rng=self._random),
            request.timeout_ms,
            requested_by,
        )

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool, requested_by: str = THIS_NODE
    ) -> list[Refused | None]:
        """For each alteration, why it was refused, or None where it was made."""
        return await self._run(
            lambda image: configs.alter_configs(
                image, alterations, settings=self._settings.of_broker(image), validate_only=validate_only
            ),
            OWN_TIMEOUT_MS,
            requested_by,
        )

    async def update_features(self, request: UpdateFeaturesRequest, *, requested_by: str = THIS_NODE) -> None:
        """Raises `Refused` for the first feature that can not be updated; then none is."""
        await self._run(
            lambda image: features.update_features(
                image, request, settings=self._settings.of_broker(image), node_id=self._node_id
            ),
            request.timeout_ms,
            requested_by,
        )

    async def allocate_producer_ids(self, broker_id: int) -> tuple[int, int]:
        """The first id of a new block, and how many there are in it."""
        broker = self._image.brokers.get(broker_id)
        request = AllocateProducerIdsRequest(
            broker_id=broker_id, broker_epoch=-1 if broker is None else broker.epoch
        )
        block = await self._run(
            lambda image: producer_ids.allocate_producer_ids(image, request), OWN_TIMEOUT_MS
        )
        return block.producer_id_start, block.producer_id_len

    def quorum_status(self) -> QuorumStatus:
        return self._quorum.status()

    # Decide, append, replay

    async def _run(
        self,
        decide: Callable[[MetadataImage], Outcome[R]],
        timeout_ms: int,
        requested_by: str = THIS_NODE,
    ) -> R:
        if timeout_ms <= 0:
            # Kafka gives up before it has begun, and clients that send this have learnt to expect it.
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The request has a timeout of {timeout_ms} ms; it must be over 0.",
            )
        response = self._decide(decide, requested_by)
        await self._committed(timeout_ms)
        return response

    def _decide(self, decide: Callable[[MetadataImage], Outcome[R]], requested_by: str = THIS_NODE) -> R:
        """The response to a decision whose records are appended; it may be given out once they are committed."""
        if not self._quorum.is_leader:
            raise self._not_controller()
        if len(self._pending) >= PENDING_MAX:
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                "Too many changes wait for the metadata log to be written; try again later.",
            )
        outcome = decide(self._image)
        if outcome.records:
            self._append(outcome, requested_by)
        return outcome.response

    async def _committed(self, timeout_ms: int) -> None:
        """Returns when all that is appended so far is committed. Also for a decision that changed nothing, because it
        may rest on records that are not committed yet."""
        if not self._pending:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
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
            waiters.pop(waiter, None)  # a log that is stuck must not gather requests that have given up

    def _append(self, outcome: Outcome[R], requested_by: str) -> None:
        batches = list(_split(outcome.records))
        if outcome.is_atomic and len(batches) > 1:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"The change needs more than {BATCH_BYTES_MAX} bytes in the metadata log; split the request.",
            )
        for records, values in batches:
            # Replayed before it is appended: what can not be replayed is a bug, and must not reach the log.
            builder = ImageBuilder(self._image)
            for record in records:
                builder.replay(record)
            last_offset = self._quorum.next_offset + len(values) - 1
            delta = builder.finish(offset=last_offset, epoch=self._quorum.epoch)
            try:
                appended_offset = self._quorum.append(values)
            except NotLeader as exc:
                raise self._not_controller() from exc
            assert appended_offset == last_offset, "only the controller appends records"
            self._image = delta.image
            self._pending.append(_Pending(last_offset, delta, requested_by))

    def _not_controller(self) -> Refused:
        failure = self._quorum.failure
        if failure is None:
            return Refused(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
        return Refused(
            ErrorCode.NOT_CONTROLLER, f"The metadata log of node {self._node_id} failed: {failure}"
        )

    # What the quorum tells

    def replay(self, batches: Iterator[DataBatch]) -> None:
        builder = ImageBuilder(EMPTY_IMAGE)
        last_offset, epoch = EMPTY_IMAGE.offset, EMPTY_IMAGE.epoch
        for batch in batches:
            for value in batch.values:
                builder.replay(decode_record(value))
            last_offset, epoch = batch.last_offset, batch.epoch
        delta = builder.finish(offset=last_offset, epoch=epoch)
        self._image = delta.image
        self._cache.publish(delta)

    def committed(self, high_watermark: int) -> None:
        while self._pending and self._pending[0].last_offset < high_watermark:
            pending = self._pending.popleft()
            self._cache.publish(pending.delta)
            changes.log_changes(
                pending.delta,
                self._settings.of_broker(pending.delta.image),
                requested_by=pending.requested_by,
            )
            for waiter in list(pending.waiters):
                if not waiter.done():
                    waiter.set_result(None)

    def resigned(self) -> None:
        forgotten, self._pending = self._pending, deque()
        self._image = self._cache.image
        for waiter in [waiter for pending in forgotten for waiter in pending.waiters]:
            if not waiter.done():
                waiter.set_exception(self._not_controller())


def _split(records: Sequence[object]) -> Iterator[tuple[list[object], list[bytes]]]:
    """Records and their bytes, in pieces that each fit one batch."""
    piece: list[object] = []
    values: list[bytes] = []
    size = 0
    for record in records:
        value = encode_record(record)
        needed = len(value) + RECORD_OVERHEAD_BYTES_MAX
        if values and size + needed > BATCH_BYTES_MAX:
            yield piece, values
            piece, values, size = [], [], 0
        piece.append(record)
        values.append(value)
        size += needed
    yield piece, values
