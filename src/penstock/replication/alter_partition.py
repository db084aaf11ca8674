"""Sends the ISR changes of this node's leaders to the controller (AlterPartition, KIP-497).

Proposals of many partitions go into one request, and one request is in flight at a time. Each partition has at most one
proposal. `AlterPartitionQueue` decides without I/O; `AlterPartitions` sends. A proposal stays in the queue until the
controller has answered it, or its partition has a newer state: a lost response never loses a proposal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    AlterPartitionResponse,
    BrokerState,
)
from penstock.protocol.types import Uuid
from penstock.replication.isr import IsrProposal, LedPartition
from penstock.runtime.backoff import Backoff
from penstock.runtime.supervisor import Supervisor

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_MS = 30_000
RETRY_MS, RETRY_MAX_MS = 50, 1_000
PARTITIONS_MAX = 2_000  # per request; the controller writes one record for each

Key = tuple[Uuid, int]


class ControllerChannel(Protocol):
    async def ask(self, request: Any, *, timeout_ms: int) -> Any:
        """The response of the active controller. `Refused` if there was none within the timeout."""
        ...


class AlterPartitionQueue:
    """The proposals that the controller has not answered yet, in the order in which they were made."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._proposals: dict[Key, tuple[LedPartition, IsrProposal]] = {}
        self._sent: dict[Key, tuple[LedPartition, IsrProposal]] = {}

    def __bool__(self) -> bool:
        return bool(self._proposals)

    def add(self, partition: LedPartition, proposal: IsrProposal) -> None:
        self._proposals[partition.topic_id, partition.index] = (partition, proposal)

    def next_request(self, broker_epoch: int) -> AlterPartitionRequest | None:
        """The next request, or None if no proposal is left. The one before must be answered or failed."""
        self._sent = {}
        topics: dict[Uuid, AlterPartitionRequestTopic] = {}
        for key, (partition, proposal) in list(self._proposals.items()):
            if not partition.is_pending(proposal):
                del self._proposals[key]  # the partition has a newer state, or another leader
                continue
            if len(self._sent) == PARTITIONS_MAX:
                break
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = AlterPartitionRequestTopic(
                    topic_name=partition.topic, topic_id=partition.topic_id, partitions=[]
                )
                topics[partition.topic_id] = topic
            topic.partitions.append(_request_partition(partition.index, proposal))
            self._sent[key] = (partition, proposal)
        if not topics:
            return None
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=broker_epoch, topics=list(topics.values())
        )

    def handle(self, response: AlterPartitionResponse) -> ErrorCode:
        """Apply a response. The error is NONE if something was answered; otherwise everything must be sent again."""
        if response.error_code != ErrorCode.NONE:
            return response.error_code
        error = ErrorCode.REQUEST_TIMED_OUT
        for topic in response.topics:
            for answer in topic.partitions:
                key = (topic.topic_id, answer.partition_index)
                sent = self._sent.pop(key, None)
                if sent is None:
                    continue
                partition, proposal = sent
                if not partition.isr_answered(proposal, answer):
                    error = answer.error_code if error == ErrorCode.REQUEST_TIMED_OUT else error
                    continue
                error = ErrorCode.NONE
                if self._proposals.get(key) == sent:
                    del self._proposals[key]
        return error


def _request_partition(index: int, proposal: IsrProposal) -> AlterPartitionRequestPartition:
    return AlterPartitionRequestPartition(
        partition_index=index,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=node_id, broker_epoch=epoch)
            for node_id, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
        ],
        partition_epoch=proposal.partition_epoch,
    )


class AlterPartitions:
    """Runs an `AlterPartitionQueue` over the controller channel."""

    def __init__(
        self,
        *,
        node_id: int,
        channel: ControllerChannel,
        broker_epoch: Callable[[], int],
        supervisor: Supervisor,
    ) -> None:
        """`broker_epoch` is that of this process's last registration."""
        self._queue = AlterPartitionQueue(node_id)
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._supervisor = supervisor
        self._backoff = Backoff(RETRY_MS, RETRY_MAX_MS, jitter=0)
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def submit(self, partition: LedPartition, proposal: IsrProposal) -> None:
        self._queue.add(partition, proposal)
        if not self._is_closed and (self._task is None or self._task.done()):
            self._task = self._supervisor.run("alter partition", self._send_all)

    async def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _send_all(self) -> None:
        failures = 0
        while (request := self._queue.next_request(self._broker_epoch())) is not None:
            try:
                response = await self._channel.ask(request, timeout_ms=REQUEST_TIMEOUT_MS)
                error, reason = self._queue.handle(response), ""
            except Refused as refusal:
                error, reason = refusal.error, f": {refusal}"
            if error == ErrorCode.NONE:
                failures = 0
                continue
            failures += 1
            if failures == 1:
                logger.warning("the controller did not change the ISR (%s%s); retrying", error.name, reason)
            await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)
