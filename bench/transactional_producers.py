"""Transactional producers (KIP-890) with one connection each: write, end, and write again.

The first write adds a partition (Produce v12), and every end increments the epoch (EndTxn v5). Requests are prepared;
producer id and epoch are written into them, and the CRC of the batch is computed again, as every client must. A write
that is too early, while the previous transaction is still being ended, is retried at once.
"""

from __future__ import annotations

import struct
import time

from bench.connections import Link
from bench.wire import VALUE_BYTES, Wire, request_frame
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records import kernel
from penstock.records.batch import CRC_AT, CRC_START
from penstock.records.crc import crc32c

PRODUCE_VERSION = 12  # the first that adds partitions by itself, and the last that names topics
END_VERSION = 5  # the first version that returns the next epoch
TIMEOUT_MS = 600_000  # a transaction may wait while the other broker has its turn
PATIENCE_S = 60.0
TRANSACTION = 1  # the type of key by which the coordinator of a transaction is found
_BODY_AT = 5  # after correlation id and tagged fields
_PRODUCER_AT = 43  # of a batch: id and epoch
_ODD_ID = 0x5EED5EED5EED5EED  # found again in an encoded frame, to be replaced there
_ODD_BYTES = struct.pack(">q", _ODD_ID)
_IDENTITY = struct.Struct(">qh")
_ERROR = struct.Struct(">h")
_CRC = struct.Struct(">I")
_END_RESPONSE = struct.Struct(">ihqh")  # throttle time, error, and the id and epoch to go on with
_TOO_EARLY = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,  # Kafka announces a leader shortly before that leader is ready
}


class Requests:
    """Those of one producer: a batch of so many records to one partition, and the end of a transaction."""

    def __init__(
        self, wire: Wire, transactional_id: str, topic: str, *, record_count: int, partition: int = 0
    ) -> None:
        self.write = bytearray(_write_frame(transactional_id, topic, partition, record_count))
        self._batch_at = self.write.index(_ODD_BYTES) - _PRODUCER_AT
        self._batch_end = self._batch_at + 12 + struct.unpack_from(">i", self.write, self._batch_at + 8)[0]
        self._ends = {commits: bytearray(_end_frame(transactional_id, commits)) for commits in (True, False)}
        self._end_at = self._ends[True].index(_ODD_BYTES)
        # Of the only partition of the only topic: behind two lengths, the topic's name, and the partition's number.
        self._error_at = _BODY_AT + 1 + 1 + len(topic) + 1 + 4
        self._become(*_identify(wire, transactional_id))

    def end(self, *, commits: bool = True) -> bytearray:
        return self._ends[commits]

    def is_written(self, response: memoryview) -> bool:
        """False where it came too early."""
        (error,) = _ERROR.unpack_from(response, self._error_at)
        if error and error not in _TOO_EARLY:
            raise RuntimeError(f"a write was refused: {ErrorCode(error)!r}")
        return not error

    def is_ended(self, response: memoryview) -> bool:
        """False where it came too early; else the next requests are those of the next epoch."""
        _, error, producer_id, epoch = _END_RESPONSE.unpack_from(response, _BODY_AT)
        if error and error not in _TOO_EARLY:
            raise RuntimeError(f"an end was refused: {ErrorCode(error)!r}")
        if not error:
            self._become(producer_id, epoch)
        return not error

    def _become(self, producer_id: int, epoch: int) -> None:
        """Sequences start at 0 in every epoch, so nothing else has to change."""
        write, at = self.write, self._batch_at
        _IDENTITY.pack_into(write, at + _PRODUCER_AT, producer_id, epoch)
        _CRC.pack_into(write, at + CRC_AT, crc32c(write[at + CRC_START : self._batch_end]))
        for end in self._ends.values():
            _IDENTITY.pack_into(end, self._end_at, producer_id, epoch)


class TransactionalProducer:
    """Transactions of one batch, one after the other; one of `abort_one_in` is rolled back."""

    def __init__(self, link: Link, requests: Requests, *, abort_one_in: int = 0) -> None:
        self.count = 0
        """Transactions that have ended."""
        self.is_stopping = False
        self.is_idle = False
        self._link = link
        self._requests = requests
        self._abort_one_in = abort_one_in

    def start(self) -> None:
        self._link.on_response = self._written
        self._link.send(self._requests.write)

    def _written(self, response: memoryview) -> None:
        if self._requests.is_written(response):
            self._link.on_response = self._ended
            self._send_end()
        else:
            self._link.send(self._requests.write)

    def _ended(self, response: memoryview) -> None:
        if not self._requests.is_ended(response):
            self._send_end()
            return
        self.count += 1
        if self.is_stopping:
            self.is_idle = True
        else:
            self.start()

    def _send_end(self) -> None:
        commits = not self._abort_one_in or (self.count + 1) % self._abort_one_in != 0
        self._link.send(self._requests.end(commits=commits))


def _identify(wire: Wire, transactional_id: str) -> tuple[int, int]:
    """Producer id and epoch; the first to ask for its coordinator waits until there is one."""
    where = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
    limit = time.perf_counter() + PATIENCE_S
    while True:
        wire.ask(where, ApiKey.FIND_COORDINATOR)
        response = wire.ask(request, ApiKey.INIT_PRODUCER_ID)
        if response.error_code == ErrorCode.NONE:
            return response.producer_id, response.producer_epoch
        if time.perf_counter() > limit:
            raise RuntimeError(f"there is no producer id: {response.error_code!r}")
        time.sleep(0.01)


def _write_frame(transactional_id: str, topic: str, partition: int, record_count: int) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    value = bytes(index % 256 for index in range(VALUE_BYTES))
    records = kernel.build_batch(
        [(now_ms, None, value, ())] * record_count,
        producer_id=_ODD_ID,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=records)]
            )
        ],
    )
    return request_frame(request, ApiKey.PRODUCE, version=PRODUCE_VERSION)


def _end_frame(transactional_id: str, commits: bool) -> bytes:
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=_ODD_ID, producer_epoch=0, committed=commits
    )
    return request_frame(request, ApiKey.END_TXN, version=END_VERSION)
