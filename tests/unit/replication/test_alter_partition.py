"""AlterPartition requests: batched, one in flight, repeated until they are answered."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)
from penstock.protocol.types import Uuid
from penstock.replication.alter_partition import AlterPartitionQueue, AlterPartitions
from penstock.replication.isr import IsrProposal
from penstock.runtime.supervisor import Supervisor

TOPIC = Uuid(b"orders".ljust(16))
PROPOSAL = IsrProposal((1, 2), (11, 12), 3, 4)


class Led:
    topic = "orders"
    topic_id = TOPIC

    def __init__(self, index: int) -> None:
        self.index = index
        self.pending: IsrProposal | None = None
        self.answers: list[ErrorCode] = []
        self.is_settled = True

    def propose(self) -> IsrProposal:
        self.pending = IsrProposal((1, 2), (11, 12), 3, 4)
        return self.pending

    def is_pending(self, proposal: IsrProposal) -> bool:
        return self.pending is proposal

    def isr_answered(self, proposal: IsrProposal, answer: AlterPartitionResponsePartition) -> bool:
        self.answers.append(answer.error_code)
        if self.is_settled:
            self.pending = None
        return self.is_settled


def answer(request: AlterPartitionRequest, error: ErrorCode = ErrorCode.NONE) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponseTopic(
                topic_id=topic.topic_id,
                partitions=[
                    AlterPartitionResponsePartition(
                        partition_index=each.partition_index,
                        error_code=error,
                        leader_id=1,
                        leader_epoch=3,
                        isr=[1, 2],
                        partition_epoch=5,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def indexes(request: AlterPartitionRequest | None) -> list[int]:
    assert request is not None
    return [each.partition_index for topic in request.topics for each in topic.partitions]


def test_proposals_of_many_partitions_go_into_one_request() -> None:
    queue = AlterPartitionQueue(1)
    for led in (Led(0), Led(1)):
        queue.add(led, led.propose())

    request = queue.next_request(99)

    assert indexes(request) == [0, 1]
    assert request is not None
    assert (request.broker_id, request.broker_epoch) == (1, 99)
    (topic,) = request.topics
    wanted = topic.partitions[0]
    assert [(each.broker_id, each.broker_epoch) for each in wanted.new_isr_with_epochs] == [(1, 11), (2, 12)]
    assert (wanted.leader_epoch, wanted.partition_epoch, wanted.leader_recovery_state) == (3, 4, 0)


def test_a_proposal_whose_partition_has_moved_on_is_not_sent() -> None:
    queue = AlterPartitionQueue(1)
    led = Led(0)
    queue.add(led, led.propose())
    led.pending = None

    assert queue.next_request(99) is None
    assert not queue


def test_an_answered_proposal_leaves_the_queue() -> None:
    queue = AlterPartitionQueue(1)
    led = Led(0)
    queue.add(led, led.propose())
    request = queue.next_request(99)
    assert request is not None

    assert queue.handle(answer(request)) == ErrorCode.NONE

    assert led.answers == [ErrorCode.NONE]
    assert not queue


def test_a_partition_that_wants_a_retry_stays_in_the_queue() -> None:
    queue = AlterPartitionQueue(1)
    led = Led(0)
    led.is_settled = False
    queue.add(led, led.propose())
    request = queue.next_request(99)
    assert request is not None

    assert queue.handle(answer(request, ErrorCode.UNKNOWN_SERVER_ERROR)) == ErrorCode.UNKNOWN_SERVER_ERROR

    assert indexes(queue.next_request(99)) == [0]


def test_after_an_error_of_the_whole_request_everything_is_sent_again() -> None:
    queue = AlterPartitionQueue(1)
    led = Led(0)
    queue.add(led, led.propose())
    queue.next_request(99)

    error = queue.handle(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[]))

    assert error == ErrorCode.STALE_BROKER_EPOCH
    assert indexes(queue.next_request(100)) == [0]


class Controller:
    def __init__(self) -> None:
        self.requests: list[list[int]] = []
        self.failures = 0
        self.asked_at_once = 0
        self.asked_at_once_max = 0

    async def ask(self, request: Any, *, timeout_ms: int) -> AlterPartitionResponse:
        self.asked_at_once += 1
        self.asked_at_once_max = max(self.asked_at_once_max, self.asked_at_once)
        await asyncio.sleep(0)
        self.asked_at_once -= 1
        self.requests.append(indexes(request))
        if self.failures:
            self.failures -= 1
            raise Refused(ErrorCode.REQUEST_TIMED_OUT, "no controller")
        return answer(request)


async def test_one_request_is_in_flight_and_failures_are_retried() -> None:
    controller = Controller()
    controller.failures = 1
    sender = AlterPartitions(node_id=1, channel=controller, broker_epoch=lambda: 99, supervisor=Supervisor())
    first, second = Led(0), Led(1)
    sender.submit(first, first.propose())
    await asyncio.sleep(0)
    sender.submit(second, second.propose())

    while not (first.answers and second.answers):
        await asyncio.sleep(0.01)

    assert controller.requests == [[0], [0, 1]]
    assert controller.asked_at_once_max == 1
    await sender.close()
