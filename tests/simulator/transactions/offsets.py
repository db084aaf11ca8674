"""Offsets in transactions: how a producer commits them, and how they are fetched.

With version 1 the group is added to the transaction first, with version 2 the commit adds it. A group member sends its
member id and generation, so that a removed member is rejected (KIP-447).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from simulator.clients.client import LostConnection, SimulatedClient
from simulator.transactions.client import TransactionalClient
from simulator.transactions.history import Advance, History, OffsetRead, Partition
from simulator.transactions.shared import RETRIABLE, MustAbort

GROUP_KEY_TYPE = 0
OFFSET_FETCH_VERSION = 9  # the last version with topic names
ADD_OFFSETS_VERSION = 4
OFFSET_COMMIT_VERSION_1, OFFSET_COMMIT_VERSION_2 = 4, 5

RETRIABLE_OR_UNSTABLE = (*RETRIABLE, ErrorCode.UNSTABLE_OFFSET_COMMIT)
FENCED_MEMBER_ERRORS = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
)


class GroupMetadata(NamedTuple):
    member_id: str
    generation: int
    instance_id: str | None


class OffsetProducer(TransactionalClient):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._group_found_on = 0

    async def find_group(self, group_id: str) -> None:
        await self.connect()
        while self._group_found_on != self.connections:
            request = FindCoordinatorRequest(key_type=GROUP_KEY_TYPE, coordinator_keys=[group_id])
            (found,) = (await self.ask(request)).coordinators
            if found.error_code == ErrorCode.NONE:
                self._group_found_on = self.connections
            else:
                await self.back_off("FindCoordinator", found.error_code)

    async def commit_offset(self, advance: Advance, group_metadata: GroupMetadata | None = None) -> None:
        """Return when acknowledged as part of the transaction. Raises MustAbort if the member is fenced."""
        assert self.transaction is not None
        self.transaction.advances.append(advance)
        if not self.is_version_2:
            await self._add_group(advance.group_id)
        topic, index = advance.partition
        entry = TxnOffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=advance.next_offset,
            committed_metadata=self.transaction.name,
        )
        member_id, generation, instance_id = group_metadata or ("", -1, None)
        request = TxnOffsetCommitRequest(
            transactional_id=self.identity.transactional_id,
            group_id=advance.group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[entry])],
        )
        version = OFFSET_COMMIT_VERSION_2 if self.is_version_2 else OFFSET_COMMIT_VERSION_1
        while True:
            try:
                await self.find_group(advance.group_id)
                self._start()
                response = await self.ask(request, version=version)
            except LostConnection:
                continue
            error = response.topics[0].partitions[0].error_code
            if error == ErrorCode.NONE:
                self.accepted("TxnOffsetCommit")
                return
            if group_metadata is not None and error in FENCED_MEMBER_ERRORS:
                self.note(f"cannot commit its offset: {error.name}")
                raise MustAbort
            self._group_found_on = -1
            await self.refused("TxnOffsetCommit", error)

    async def _add_group(self, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.identity.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        while True:
            try:
                await self.find_coordinator()
                self._start()
                response = await self.ask(request, version=ADD_OFFSETS_VERSION)
            except LostConnection:
                continue
            if response.error_code == ErrorCode.NONE:
                self.accepted("AddOffsetsToTxn")
                return
            await self.refused("AddOffsetsToTxn", response.error_code)


async def read_offset(
    client: SimulatedClient, history: History, group_id: str, partition: Partition
) -> int | ErrorCode:
    """The stable committed offset of a group, -1 if there is none. It is recorded in the history."""
    topic, index = partition
    group = OffsetFetchRequestGroup(
        group_id=group_id, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[index])]
    )
    request = OffsetFetchRequest(groups=[group], require_stable=True)
    response = await client.ask(request, version=OFFSET_FETCH_VERSION)
    (answer,) = response.groups
    error: ErrorCode = answer.error_code
    if error == ErrorCode.NONE:
        error = answer.topics[0].partitions[0].error_code
    if error != ErrorCode.NONE:
        return error
    found = answer.topics[0].partitions[0]
    offset: int = found.committed_offset
    now = client.simulation.loop.time()
    history.offset_reads.append(
        OffsetRead(group_id, partition, offset, found.metadata if offset >= 0 else None, now)
    )
    return offset
