"""Errors of brokers for idempotent and transactional producers."""

from __future__ import annotations

from penstock.client.errors.base import BrokerError, Fenced
from penstock.protocol.errors import ErrorCode

__all__ = [
    "ConcurrentTransactions",
    "DuplicateSequenceNumber",
    "InvalidProducerEpoch",
    "InvalidProducerIdMapping",
    "InvalidTransactionTimeout",
    "InvalidTxnState",
    "OutOfOrderSequenceNumber",
    "ProducerFenced",
    "TransactionAbortable",
    "TransactionCoordinatorFenced",
    "TransactionalIdNotFound",
    "UnknownProducerId",
]


class OutOfOrderSequenceNumber(BrokerError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER): ...


class DuplicateSequenceNumber(BrokerError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER): ...


class UnknownProducerId(BrokerError, code=ErrorCode.UNKNOWN_PRODUCER_ID): ...


class InvalidProducerEpoch(Fenced, code=ErrorCode.INVALID_PRODUCER_EPOCH):
    advice = (
        "abort the transaction: it took longer than transaction.timeout.ms, or a newer instance has this "
        "transactional.id (then the abort raises ProducerFenced)"
    )


class ProducerFenced(Fenced, code=ErrorCode.PRODUCER_FENCED):
    advice = "close this producer; give each instance a transactional.id of its own"


class TransactionCoordinatorFenced(Fenced, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED): ...


class InvalidTxnState(BrokerError, code=ErrorCode.INVALID_TXN_STATE): ...


class InvalidProducerIdMapping(BrokerError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING): ...


class InvalidTransactionTimeout(BrokerError, code=ErrorCode.INVALID_TRANSACTION_TIMEOUT):
    advice = "lower transaction.timeout.ms, or raise the broker's transaction.max.timeout.ms"


class ConcurrentTransactions(BrokerError, code=ErrorCode.CONCURRENT_TRANSACTIONS): ...


class TransactionalIdNotFound(BrokerError, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
    advice = "see `penstock transactions list`"


class TransactionAbortable(BrokerError, code=ErrorCode.TRANSACTION_ABORTABLE): ...
