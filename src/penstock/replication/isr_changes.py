"""Keeps the in-sync replicas of the partitions that this node leads up to date.

A follower's fetch may let it join the ISR at once (`Partition.follower_fetched`). What no fetch triggers happens here:
followers that fell behind leave the ISR, in a scan every half `replica.lag.time.max.ms`; and when a broker's
registration changes, its followers may join.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import MetadataImage
from penstock.replication.alter_partition import AlterPartitions, ControllerChannel
from penstock.replication.followers import UNKNOWN_BROKER_EPOCH
from penstock.replication.isr import IsrProposal, LedPartition
from penstock.replication.table import PartitionTable
from penstock.runtime.supervisor import Supervisor

PARTITIONS_PER_TURN = 256  # of the event loop: a fraction of a millisecond


class IsrChanges:
    """The `IsrContext` of all partitions of a node. Pass it to the `PartitionTable`, then call `start`."""

    def __init__(
        self,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        image: Callable[[], MetadataImage],
        channel: ControllerChannel,
        supervisor: Supervisor,
        lag_ms_max: int,
    ) -> None:
        """`broker_epoch` is that of this process's last registration: the metadata may have that of another process
        with this node id. `lag_ms_max` is `replica.lag.time.max.ms`."""
        self.lag_ms_max = lag_ms_max
        self._node_id = node_id
        self._own_epoch = broker_epoch
        self._image = image
        self._supervisor = supervisor
        self._alter_partitions = AlterPartitions(
            node_id=node_id,
            channel=channel,
            broker_epoch=broker_epoch,
            supervisor=supervisor,
        )
        self._table: PartitionTable | None = None
        self._scanning: asyncio.Task[None] | None = None

    def start(self, table: PartitionTable) -> None:
        self._table = table
        self._scanning = self._supervisor.repeat(
            "ISR expiration", self.scan, interval_ms=max(1, self.lag_ms_max // 2)
        )

    async def close(self) -> None:
        if self._scanning is not None:
            self._scanning.cancel()
            await asyncio.gather(self._scanning, return_exceptions=True)
        await self._alter_partitions.close()

    def apply(self, delta: MetadataDelta) -> None:
        """After `PartitionTable.apply`: brokers that are active again may join the ISR."""
        if delta.brokers and self._table is not None:
            for partition in self._table.all():
                if partition.is_leader and partition.followers.out_of_sync:
                    partition.check_isr()

    async def scan(self) -> None:
        """Remove followers from the ISR that have been behind for too long. Also expand it, for changes that were
        refused."""
        assert self._table is not None, "start it first"
        for count, partition in enumerate(list(self._table.all())):
            if count % PARTITIONS_PER_TURN == PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)
            partition.check_isr()

    # -- what a partition asks

    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def broker_epoch(self, node_id: int) -> int:
        if node_id == self._node_id:
            return self._own_epoch()
        broker = self._image().brokers.get(node_id)
        return UNKNOWN_BROKER_EPOCH if broker is None else broker.epoch

    def is_active(self, node_id: int) -> bool:
        broker = self._image().brokers.get(node_id)
        return broker is not None and broker.is_active

    def propose(self, partition: LedPartition, proposal: IsrProposal) -> None:
        self._alter_partitions.submit(partition, proposal)
