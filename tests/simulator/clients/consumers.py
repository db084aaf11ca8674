"""A client that reads topics continuously.

It checks every record against the ledger at once: offsets have no gaps, batches are complete, each record was sent by
some client, and no offset ever shows a different record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.records.errors import RecordsError
from simulator.checks.ledger import FoundRecord, Key, Ledger, PartitionLedger
from simulator.clients.client import EARLIEST, LATEST, LostConnection, SimulatedClient
from simulator.clients.producers import STOPPING, UNKNOWN_TOPIC_ERRORS, Conditions
from simulator.simulation import BrokenPromise, Simulation

WAIT_MS_MAX = 400
PARTITION_BYTES = 4_000  # small, so that a log is read in many fetches
NO_SESSION = (0, -1)
NEW_SESSION = (0, 0)
SESSION_ERRORS = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


def read_records(data: PartitionData, offset: int, name: str) -> list[FoundRecord]:
    """The records of a response from `offset` on. Checks that batches are complete and contiguous."""
    found: list[FoundRecord] = []
    records = data.records
    assert isinstance(records, memoryview), "a decoded response has its records in memory"
    try:
        headers = kernel.check_batches(records)
    except RecordsError as error:
        raise BrokenPromise(f"{name}: the records at {offset} are corrupt: {error}") from error
    position = 0
    for header in headers:
        if header.last_offset >= data.high_watermark:
            raise BrokenPromise(
                f"{name}: offset {header.last_offset} was returned beyond the high watermark {data.high_watermark}"
            )
        found += [
            FoundRecord(record.offset, header.leader_epoch, bytes(record.value or b""), record.timestamp)
            for record in kernel.iterate_records(records, position)
            if record.offset >= offset
        ]
        position += header.size_bytes
    offsets = [record.offset for record in found]
    if offsets != list(range(offset, offset + len(found))):
        raise BrokenPromise(f"{name}: fetched from {offset}, got offsets {offsets[:10]} ...")
    return found


class Reader(SimulatedClient):
    """Reads its topics from the beginning until the scenario ends, with or without a fetch session."""

    ISOLATION_LEVEL = 0  # read uncommitted

    def __init__(
        self, simulation: Simulation, name: str, topics: Sequence[str], ledger: Ledger, conditions: Conditions
    ) -> None:
        super().__init__(simulation, name)
        self._topics = topics
        self._ledger = ledger
        self._weather = conditions
        self._has_session = self.random.random() < 0.5
        self._session = NO_SESSION
        self._positions: dict[Key, int] = {}
        self._names: dict[Uuid, str] = {}
        self._session_offsets: dict[Key, int] = {}
        """The fetch offsets of the session, as the node knows them."""

    async def run(self) -> None:
        while not self._weather.is_over():
            try:
                await self._look_for_topics()
                for _ in range(20):
                    if self._weather.is_over() or not await self._fetch():
                        break
            except LostConnection:
                self._session = NO_SESSION
                self._session_offsets.clear()

    async def _look_for_topics(self) -> None:
        found: dict[Key, int] = {}
        for topic in self._topics:
            details = await self.find_topic(topic)
            if details is not None:
                topic_id, partition_count = details
                self._names[topic_id] = topic
                for index in range(partition_count):
                    key = (topic_id, index)
                    found[key] = self._positions.get(key, 0)
        self._positions = found

    async def _fetch(self) -> bool:
        """Send one fetch request. False if topics have to be looked up again."""
        if not self._positions:
            await asyncio.sleep(self.random.uniform(0, WAIT_MS_MAX / 1000))
            return False
        response: FetchResponse = await self.ask(self._make_request())
        if response.error_code in SESSION_ERRORS:
            self._session = NO_SESSION
            self._session_offsets.clear()
            return True
        if response.error_code != ErrorCode.NONE:
            raise BrokenPromise(f"{self.name} cannot fetch: {response.error_code.name}")
        if self._has_session:
            epoch = self._session[1] + 1 if self._session != NO_SESSION else 1
            self._session = (response.session_id, epoch) if response.session_id else NO_SESSION
        is_fine, is_disk_degraded = True, self._weather.is_disk_degraded()
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                is_fine &= await self._take(key, data, is_disk_degraded=is_disk_degraded)
        if not is_fine:
            await asyncio.sleep(self.random.uniform(0, 0.1))
        return is_fine

    def _make_request(self) -> FetchRequest:
        wanted, forgotten = dict(self._positions), []
        session = NO_SESSION
        if self._has_session:
            session = NEW_SESSION if self._session == NO_SESSION else self._session
            if self._session == NO_SESSION:
                self._session_offsets.clear()
            wanted = {key: at for key, at in self._positions.items() if self._session_offsets.get(key) != at}
            forgotten = [key for key in self._session_offsets if key not in self._positions]
            self._session_offsets = dict(self._positions)
        return FetchRequest(
            max_wait_ms=self.random.randint(0, WAIT_MS_MAX),
            min_bytes=self.random.choice((0, 1, 1, 1000)),
            isolation_level=self.ISOLATION_LEVEL,
            session_id=session[0],
            session_epoch=session[1],
            topics=[
                FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=PARTITION_BYTES)
                    ],
                )
                for (topic_id, index), at in wanted.items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=[index]) for topic_id, index in forgotten
            ],
        )

    async def _take(self, key: Key, data: PartitionData, *, is_disk_degraded: bool) -> bool:
        """Handle one partition of a response. False if topics have to be looked up again."""
        position = self._positions[key]
        ledger = self._ledger.get(self._names[key[0]], *key)
        error = data.error_code
        if error == ErrorCode.NONE:
            found = read_records(data, position, ledger.name)
            for record in found:
                ledger.read(record)
            self._positions[key] = position + len(found)
            return True
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._find_position(key, ledger)
            return True
        if error in UNKNOWN_TOPIC_ERRORS + STOPPING or (
            error == ErrorCode.KAFKA_STORAGE_ERROR and is_disk_degraded
        ):
            return False
        raise BrokenPromise(f"{self.name} cannot read {ledger.name}: {error.name}")

    async def _find_position(self, key: Key, ledger: PartitionLedger) -> None:
        """The position is out of range: records were deleted, or lost in a power cut."""
        topic = self._names[key[0]]
        position = self._positions[key]
        earliest = await self.offset(topic, key[1], EARLIEST)
        latest = await self.offset(topic, key[1], LATEST)
        if isinstance(earliest, ErrorCode) or isinstance(latest, ErrorCode):
            return
        if position > latest and ledger.is_durable:
            raise BrokenPromise(f"{ledger.name}: {position} was read, but now the log ends at {latest}")
        self._positions[key] = earliest
