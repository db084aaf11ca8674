"""A client that reads whole partitions and checks them against the ledger and against lookups.

The records that it read determine the result of every lookup by offset, timestamp or leader epoch. So the audit also
covers indexes and epochs that recovery built or a restart relied on.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from penstock.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.protocol.types import Uuid
from simulator.checks.ledger import FoundRecord, Ledger
from simulator.clients.client import EARLIEST, LATEST, SimulatedClient
from simulator.clients.consumers import read_records
from simulator.simulation import BrokenPromise, Simulation

PARTITION_BYTES = 1 << 16
LOOKUPS = 3  # of each kind per partition


class Auditor(SimulatedClient):
    def __init__(self, simulation: Simulation, name: str, ledger: Ledger) -> None:
        super().__init__(simulation, name)
        self._ledger = ledger

    async def audit(self, topic: str, topic_id: Uuid, index: int, *, is_quiet: bool = False) -> ErrorCode:
        """Check one partition from start to end; the error if it could not be read.

        `is_quiet`: no other client is active, so lookups can be checked too.
        """
        ledger = self._ledger.get(topic, topic_id, index)
        if ledger.is_doubtful:
            return ErrorCode.KAFKA_STORAGE_ERROR  # its directory has been offline since the power cut
        promised = dict(ledger.promised)
        promised_end_offset = ledger.end_of_promises()
        start_offset = await self.offset(topic, index, EARLIEST)
        if isinstance(start_offset, ErrorCode):
            return start_offset
        end_offset = await self.offset(topic, index, LATEST)
        if isinstance(end_offset, ErrorCode):
            return end_offset
        if end_offset < promised_end_offset:
            raise BrokenPromise(
                f"{ledger.name}: a consumer sees the end {end_offset}, but {promised_end_offset - 1} was"
                " promised"
            )
        records: list[FoundRecord] = []
        while (position := start_offset + len(records)) < end_offset:
            data = await self._fetch(topic_id, index, position)
            if data.error_code != ErrorCode.NONE:
                return data.error_code
            found = read_records(data, position, ledger.name)
            if not found:
                raise BrokenPromise(
                    f"{ledger.name}: a fetch at {position} returned nothing, but the log ends at {end_offset}"
                )
            for record in found:
                ledger.read(record)
            records += found
        ledger.check_log(start_offset, records, promised=promised, end_offset=end_offset)
        if is_quiet and records and not ledger.may_expire:
            await self._look_up_offsets(topic_id, index, records)
            await self._look_up_times(topic, index, records)
            await self._look_up_epochs(topic, index, records)
        return ErrorCode.NONE

    async def _look_up_offsets(self, topic_id: Uuid, index: int, records: Sequence[FoundRecord]) -> None:
        for wanted in self._some(records):
            data = await self._fetch(topic_id, index, wanted.offset)
            found = read_records(data, wanted.offset, f"partition {index}")
            if not found or found[0] != wanted:
                raise BrokenPromise(f"partition {index}: a scan returned {wanted}, a lookup {found[:1]}")

    async def _look_up_times(self, topic: str, index: int, records: Sequence[FoundRecord]) -> None:
        for wanted in self._some(records):
            time = wanted.timestamp - self.random.choice((0, 0, 1))
            first = next(record for record in records if record.timestamp >= time)
            offset = await self.offset(topic, index, time)
            if offset != first.offset:
                raise BrokenPromise(
                    f"{topic}-{index}: the first record at {time} or later has offset {first.offset}, not {offset}"
                )

    async def _look_up_epochs(self, topic: str, index: int, records: Sequence[FoundRecord]) -> None:
        for wanted in self._some(records):
            epoch = wanted.leader_epoch
            later = [record.offset for record in records if record.leader_epoch > epoch]
            end_offset = later[0] if later else records[-1].offset + 1
            response = await self.ask(
                OffsetForLeaderEpochRequest(
                    replica_id=-1,
                    topics=[
                        OffsetForLeaderTopic(
                            topic=topic,
                            partitions=[OffsetForLeaderPartition(partition=index, leader_epoch=epoch)],
                        )
                    ],
                )
            )
            (found,) = response.topics[0].partitions
            if (found.leader_epoch, found.end_offset) != (epoch, end_offset):
                raise BrokenPromise(
                    f"{topic}-{index}: epoch {epoch} ended at {end_offset}, but the response says epoch"
                    f" {found.leader_epoch} and {found.end_offset}"
                )

    def _some(self, records: Sequence[FoundRecord]) -> list[FoundRecord]:
        return [self.random.choice(records) for _ in range(LOOKUPS)]

    async def _fetch(self, topic_id: Uuid, index: int, position: int) -> PartitionData:
        wanted = FetchPartition(partition=index, fetch_offset=position, partition_max_bytes=PARTITION_BYTES)
        response: FetchResponse = await self.ask(
            FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
            )
        )
        data: PartitionData = response.responses[0].partitions[0]
        return data
