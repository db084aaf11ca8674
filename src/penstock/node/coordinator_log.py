"""The log of a coordinator, in the partitions of its internal topic that this node leads."""

from __future__ import annotations

from collections.abc import Callable

from penstock.coordinator.log import CommitWait
from penstock.coordinator.result import Guard
from penstock.metadata.errors import Refused
from penstock.protocol.constants import ACKS_ALL
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel
from penstock.records.control import TxnMarkerEntry
from penstock.replication.partition import Partition
from penstock.replication.table import PartitionTable
from penstock.replication.transactions import append_marker
from penstock.runtime.clock import Clock
from penstock.runtime.network import FileSlice
from penstock.runtime.workers import Lane, Workers
from penstock.storage.pages import waiting_for_disk, when_loaded
from penstock.storage.transactions.guards import VerificationGuard


class PartitionCoordinatorLog:
    """A `coordinator.log.CoordinatorLog` on the partition table."""

    def __init__(
        self, topic: str, partitions: PartitionTable, *, clock: Clock, workers: Workers, read_bytes: int
    ) -> None:
        """`read_bytes` is the read size when a partition is loaded."""
        self._topic = topic
        self._partitions = partitions
        self._clock = clock
        self._workers = workers
        self._read_bytes = read_bytes

    def append(self, partition: int, batches: bytearray, guard: Guard | None = None) -> int:
        view = memoryview(batches)
        headers = kernel.read_headers(view)
        led = self._partitions.find(self._topic, partition)
        for header in headers:
            if header.size_bytes > led.rules.max_message_bytes:
                # As in Kafka: it limits the state of a group, and consumers of the topic can read every batch.
                raise Refused(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"a record batch of {header.size_bytes} bytes for {led} is larger than max.message.bytes="
                    f"{led.rules.max_message_bytes}",
                )
        assert guard is None or isinstance(guard, VerificationGuard), "guards come from partitions"
        now_ms = self._clock.wall_ms()
        # An append must not wait. `read` has already loaded the index into memory.
        info = waiting_for_disk(
            led.append_validated, view, headers, acks=ACKS_ALL, now_ms=now_ms, guard=guard
        )
        return info.last_offset + 1

    def append_marker(self, partition: int, marker: TxnMarkerEntry) -> int:
        led = self._partitions.find(self._topic, partition)
        return waiting_for_disk(append_marker, led, marker, now_ms=self._clock.wall_ms()).last_offset + 1

    def is_committed(self, partition: int, end_offset: int) -> bool:
        return end_offset <= self._partitions.find(self._topic, partition).high_watermark

    def wait_for_commit(
        self, partition: int, end_offset: int, listener: Callable[[ErrorCode], None]
    ) -> CommitWait | None:
        return self._partitions.find(self._topic, partition).wait_for_acknowledgement(
            end_offset, acks=ACKS_ALL, on_complete=listener
        )

    def bounds(self, partition: int) -> tuple[int, int]:
        log = self._led(partition).log
        return log.start_offset, log.end_offset

    async def read(self, partition: int, offset: int) -> bytes | None:
        def find() -> FileSlice | None:
            led = self._led(partition)
            led.prepare_append()
            return led.read(offset, max_bytes=self._read_bytes, at_least_one=True, for_replica=True)

        piece = await when_loaded(find, self._workers)
        if piece is None:
            return None
        try:
            return await self._workers.run(piece.read, lane=Lane.READ)
        except OSError as error:
            piece.failed(error)
            raise Refused(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self._topic}-{partition} cannot be read: {error}"
            ) from error

    def _led(self, index: int) -> Partition:
        partition = self._partitions.find(self._topic, index)
        if not partition.is_leader:
            raise Refused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"the leader of {partition} is broker {partition.leader}, not this one",
            )
        return partition
