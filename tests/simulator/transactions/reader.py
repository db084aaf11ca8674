"""Readers of the transactional topics. They record what they read in the history."""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import PartitionData
from simulator.checks.ledger import Key, Ledger
from simulator.clients.consumers import Reader
from simulator.clients.producers import STOPPING
from simulator.simulation import BrokenPromise
from simulator.transactions.history import Poll
from simulator.transactions.isolation import keep_all, keep_committed, read_batches
from simulator.transactions.shared import TOPICS, SharedState


class UncommittedReader(Reader):
    """Reads everything."""

    IS_COMMITTED = False

    def __init__(self, shared: SharedState, name: str) -> None:
        super().__init__(shared.simulation, name, TOPICS, Ledger(), shared.conditions)
        self._shared = shared

    async def _take(self, key: Key, data: PartitionData, *, is_disk_degraded: bool) -> bool:
        partition = self._names[key[0]], key[1]
        position, error = self._positions[key], data.error_code
        if error == ErrorCode.NONE:
            batches = read_batches(data, partition, position)
            records = (
                keep_committed(data, batches, partition, position)
                if self.IS_COMMITTED
                else keep_all(batches, position)
            )
            next_offset = batches[-1].header.next_offset if batches else position
            now = self.simulation.loop.time()
            for header, _, marker in batches:
                if marker is not None:
                    epochs = header.producer_epoch, marker.coordinator_epoch
                    self._shared.markers[partition, header.producer_id] = epochs
            self._shared.history.polls.append(
                Poll(self.name, self.IS_COMMITTED, partition, position, next_offset, records, now)
            )
            self._positions[key] = next_offset
            return True
        if error in STOPPING or (error == ErrorCode.KAFKA_STORAGE_ERROR and is_disk_degraded):
            return False
        raise BrokenPromise(f"{self.name} cannot read {partition}: {error.name}")


class CommittedReader(UncommittedReader):
    """Reads committed records."""

    ISOLATION_LEVEL = 1
    IS_COMMITTED = True
