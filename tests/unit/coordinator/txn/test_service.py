"""The coordinator as handlers and the node see it."""

from __future__ import annotations

from harness.transaction_shards import ORDERS_0, ORDERS_1, Coordination, play
from penstock.coordinator.txn.transaction import State
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def test_a_transaction_from_its_begin_to_its_end() -> None:
    async def scenario(stage: Coordination) -> None:
        coordinator = stage.coordinator

        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        begun = coordinator.init_producer_id(request, version=5)
        assert isinstance(begun, InitProducerIdResponse)
        assert (begun.error_code, begun.producer_id, begun.producer_epoch) == (ErrorCode.NONE, 1000, 0)

        added = coordinator.add_partitions(
            "t", 1000, 0, [ORDERS_0, ORDERS_1], verify_only=False, is_version_2=True
        )
        assert added == {ORDERS_0: ErrorCode.NONE, ORDERS_1: ErrorCode.NONE}

        end = EndTxnRequest(transactional_id="t", producer_id=1000, producer_epoch=0, committed=True)
        ended = coordinator.end(end, version=5)
        assert isinstance(ended, EndTxnResponse)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (ErrorCode.NONE, 1000, 1)

        assert stage.partitions.ends(ORDERS_0) == stage.partitions.ends(ORDERS_1) == [True]
        marker = stage.partitions.written[ORDERS_0][0]
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (1000, 1, 1)
        transaction = stage.state("t")
        assert transaction is not None
        assert transaction.state is State.COMPLETE_COMMIT

    play(scenario)
