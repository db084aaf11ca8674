"""Readers that follow the topics of transactions and note in the history what they are given."""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import PartitionData
from penstock.testing.consumers import Reader
from penstock.testing.ledger import Key, Ledger
from penstock.testing.producers import STOPPING
from penstock.testing.simulation import BrokenPromise
from penstock.testing.transactions.history import Poll
from penstock.testing.transactions.isolation import keep_all, keep_committed, read_batches
from penstock.testing.transactions.stage import TOPICS, Stage


class UncommittedReader(Reader):
    """Reads everything."""

    IS_COMMITTED = False

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage.simulation, name, TOPICS, Ledger(), stage.weather)
        self._stage = stage

    async def _take(self, key: Key, data: PartitionData, *, is_disk_ailing: bool) -> bool:
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
                    self._stage.markers[partition, header.producer_id] = epochs
            self._stage.history.polls.append(
                Poll(self.name, self.IS_COMMITTED, partition, position, next_offset, records, now)
            )
            self._positions[key] = next_offset
            return True
        if error in STOPPING or (error == ErrorCode.KAFKA_STORAGE_ERROR and is_disk_ailing):
            return False
        raise BrokenPromise(f"{self.name} can not read {partition}: {error.name}")


class CommittedReader(UncommittedReader):
    """Reads what is committed."""

    ISOLATION_LEVEL = 1
    IS_COMMITTED = True
