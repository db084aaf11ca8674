"""What the ISR changes of a node say about its own broker."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.metadata.errors import Refused
from penstock.metadata.image import BrokerImage, MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponsePartition
from penstock.protocol.types import ZERO_UUID
from penstock.replication.isr import IsrProposal
from penstock.replication.isr_changes import IsrChanges
from penstock.runtime.supervisor import Supervisor


class Led:
    topic = "orders"
    topic_id = ZERO_UUID
    index = 0

    def is_pending(self, proposal: IsrProposal) -> bool:
        return True

    def isr_answered(self, proposal: IsrProposal, answer: AlterPartitionResponsePartition) -> bool:
        raise AssertionError("the controller has refused the request")


class Controller:
    def __init__(self) -> None:
        self.asked: asyncio.Future[AlterPartitionRequest] = asyncio.get_running_loop().create_future()

    async def ask(self, request: Any, *, timeout_ms: int) -> Any:
        if not self.asked.done():
            self.asked.set_result(request)
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, "another process has registered this node id")


async def test_proposals_name_the_epoch_of_this_registration_not_of_the_metadata() -> None:
    """Else the controller takes the ISR of a process that was replaced for that of the broker that leads."""
    replaced_by = BrokerImage(2, 50, ZERO_UUID, (), {}, None, False, False, ())
    image = MetadataImage(brokers={2: replaced_by})
    controller = Controller()
    changes = IsrChanges(
        node_id=2,
        broker_epoch=lambda: 7,
        image=lambda: image,
        channel=controller,
        supervisor=Supervisor(),
        lag_ms_max=30_000,
    )

    changes.propose(Led(), IsrProposal((2,), (changes.broker_epoch(2),), 3, 4))

    request = await controller.asked
    assert request.broker_epoch == 7
    (member,) = request.topics[0].partitions[0].new_isr_with_epochs
    assert member.broker_epoch == 7
    await changes.close()
