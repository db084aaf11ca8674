"""Ending a prepared transaction from another process, and the meaning of each response of its coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from harness.admins import asked, run_admin
from harness.scripted_cluster import Led, ScriptedCluster
from penstock.client import errors
from penstock.client.admin.aio import Admin
from penstock.client.prepared_transaction import PreparedTransaction, RecordPlace
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest, FinalizedFeatureKey
from penstock.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.records.kernel import build_batch

PREPARED = PreparedTransaction("writer", 50, 3, RecordPlace("orders", 1, 70))
BARE = PreparedTransaction("writer", 50, 3)


class World(ScriptedCluster):
    """A coordinator that ends everything; scripts change that."""

    def __init__(self, level: int = 2) -> None:
        super().__init__()
        self.topics["orders"] = {index: Led(leader=1, epoch=1) for index in range(2)}
        grant = self._api_versions
        self.answer(ApiVersionsRequest, lambda request, node: self._with_feature(grant(request, node), level))
        self.answer(EndTxnRequest, lambda request, node: EndTxnResponse())

    @staticmethod
    def _with_feature(response: Any, level: int) -> Any:
        response.finalized_features = [
            FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=0)
        ]
        return response

    def refuse(self, *codes: ErrorCode) -> None:
        self.answer_in_turn(EndTxnRequest, *(EndTxnResponse(error_code=code) for code in codes))

    def describe(self, state: str, *, epoch: int) -> None:
        described = TransactionState(
            transactional_id="writer",
            transaction_state=state,
            transaction_timeout_ms=1,
            transaction_start_time_ms=1,
            producer_id=50,
            producer_epoch=epoch,
            topics=[],
        )
        self.answer(
            DescribeTransactionsRequest,
            lambda request, node: DescribeTransactionsResponse(transaction_states=[described]),
        )

    def log(self, *answers: PartitionData) -> None:
        self.answer_in_turn(
            FetchRequest,
            *(
                FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[answer])])
                for answer in answers
            ),
        )

    def complete(self, prepared: PreparedTransaction, *, commit: bool = True) -> None:
        async def test(admin: Admin) -> None:
            await admin.complete_transaction(prepared, commit=commit)

        run_admin(self, test)


def stable(offset: int, *aborted: tuple[int, int], epoch: int = 3) -> PartitionData:
    batch = build_batch([(1, None, b"", ())] * 5, base_offset=68, producer_id=50, producer_epoch=epoch)
    return PartitionData(
        partition_index=1,
        high_watermark=1000,
        last_stable_offset=offset,
        aborted_transactions=[AbortedTransaction(producer_id=each, first_offset=at) for each, at in aborted],
        records=bytes(batch),
    )


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("level", [0, 2])
def test_end_txn_has_the_prepared_producer_id_and_epoch(level: int, commit: bool) -> None:
    world = World(level)
    world.complete(PREPARED, commit=commit)
    ((_, request),) = asked(world, EndTxnRequest)
    assert (request.producer_id, request.producer_epoch, request.committed) == (50, 3, commit)


def test_no_request_is_sent_for_an_empty_transaction() -> None:
    world = World()
    world.complete(PreparedTransaction("writer", 50, 3, is_empty=True))
    assert asked(world, EndTxnRequest) == []


def test_it_is_retried_while_the_transaction_is_being_ended() -> None:
    world = World()
    world.refuse(ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.NONE)
    world.complete(PREPARED)
    assert len(asked(world, EndTxnRequest)) == 3


@pytest.mark.parametrize(("level", "epoch"), [(2, 4), (0, 3)])
def test_an_aborted_transaction_cannot_be_committed(level: int, epoch: int) -> None:
    world = World(level)
    world.refuse(ErrorCode.INVALID_TXN_STATE)
    world.describe("CompleteAbort", epoch=epoch)
    with pytest.raises(errors.TransactionNotCommitted, match="writer"):
        world.complete(BARE)


@pytest.mark.parametrize(("level", "epoch"), [(2, 4), (0, 3)])
def test_a_committed_transaction_cannot_be_aborted(level: int, epoch: int) -> None:
    world = World(level)
    world.refuse(ErrorCode.INVALID_TXN_STATE)
    world.describe("CompleteCommit", epoch=epoch)
    with pytest.raises(errors.TransactionNotAborted):
        world.complete(BARE, commit=False)


@pytest.mark.parametrize(("level", "state"), [(2, "CompleteAbort"), (2, "Empty"), (0, "Empty")])
def test_an_epoch_without_records_has_nothing_to_end(level: int, state: str) -> None:
    world = World(level)
    world.refuse(ErrorCode.INVALID_TXN_STATE)
    world.describe(state, epoch=3)
    world.complete(BARE)


@pytest.mark.parametrize(
    "code",
    [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING],
)
def test_the_log_has_the_outcome_after_another_producer_took_over(code: ErrorCode) -> None:
    committed, aborted = stable(90, (50, 71), (49, 60)), stable(90, (50, 60))
    for answer, commit, error in (
        (committed, True, None),
        (committed, False, errors.TransactionNotAborted),
        (aborted, True, errors.TransactionNotCommitted),
        (aborted, False, None),
    ):
        world = World()
        world.refuse(code)
        world.log(answer)
        if error is None:
            world.complete(PREPARED, commit=commit)
        else:
            with pytest.raises(error):
                world.complete(PREPARED, commit=commit)
        ((_, fetch),) = asked(world, FetchRequest)
        assert fetch.isolation_level == 1
        assert fetch.topics[0].partitions[0].fetch_offset == 70


def test_a_transaction_that_is_still_open_in_the_log_is_waited_for() -> None:
    world = World()
    world.refuse(ErrorCode.PRODUCER_FENCED)
    world.log(stable(70), stable(90, (50, 60)))
    with pytest.raises(errors.TransactionNotCommitted):
        world.complete(PREPARED)
    assert len(asked(world, FetchRequest)) == 2


def test_the_outcome_of_deleted_or_unrecorded_transactions_is_unknown() -> None:
    deleted = PartitionData(
        partition_index=1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1, records=None
    )
    for prepared in (PREPARED, BARE):
        world = World()
        world.refuse(ErrorCode.PRODUCER_FENCED)
        world.log(deleted)
        with pytest.raises(errors.TransactionOutcomeUnknown) as unknown:
            world.complete(prepared)
        assert isinstance(unknown.value.__cause__, errors.ProducerFenced)


def test_a_deleted_or_recreated_topic_gives_no_outcome() -> None:
    gone = PartitionData(
        partition_index=1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, high_watermark=-1, records=None
    )
    empty = PartitionData(partition_index=1, high_watermark=80, last_stable_offset=80, records=None)
    for answer in (stable(90, epoch=4), empty, gone):
        world = World()
        world.refuse(ErrorCode.PRODUCER_FENCED)
        world.log(answer)
        with pytest.raises(errors.TransactionOutcomeUnknown):
            world.complete(PREPARED)


def test_any_other_error_is_raised_unchanged() -> None:
    world = World()
    world.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(errors.TransactionalIdAuthorizationFailed):
        world.complete(PREPARED)
