"""Blocks of producer ids (KIP-730): a broker gets a thousand at a time, and unused ids are lost."""

from __future__ import annotations

from penstock.controller.brokers import check_broker_epoch
from penstock.controller.outcome import Outcome
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.metadata.records import ProducerIdsRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

BLOCK_SIZE = 1000
PRODUCER_ID_MAX = 2**63 - 1


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> Outcome[AllocateProducerIdsResponse]:
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id
    if first > PRODUCER_ID_MAX - BLOCK_SIZE:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "No producer ids are left in this cluster.")
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return Outcome([record], AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE))
