"""A coordinator that is no more, and whose markers arrive all the same: late, and to be refused.

It sends what one would have sent that led the partition of `__transaction_state` before the present one: the end of a
transaction with an epoch that is too old. Whoever takes it ends what is open for somebody else.
"""

from __future__ import annotations

import asyncio

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from penstock.testing.client import LostConnection, SimulatedClient
from penstock.testing.simulation import BrokenPromise
from penstock.testing.transactions.stage import Stage

VERSIONS = (1, 2)
PAUSE_S_MAX = 0.4


class Ghost(SimulatedClient):
    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage.simulation, name)
        self._stage = stage

    async def run(self) -> None:
        while not self._stage.weather.is_over():
            await asyncio.sleep(self.random.uniform(0, PAUSE_S_MAX))
            known = [(where, epochs) for where, epochs in self._stage.markers.items() if epochs[1] > 0]
            if known:
                ((topic, index), producer_id), (producer_epoch, coordinator_epoch) = self.random.choice(known)
                marker = WritableTxnMarker(
                    producer_id=producer_id,
                    producer_epoch=producer_epoch + self.random.choice((0, 1, 5)),
                    transaction_result=self.random.random() < 0.5,
                    topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
                    coordinator_epoch=coordinator_epoch - 1,
                    transaction_version=self.random.choice((0, 2)),
                )
                await self._haunt(marker)

    async def _haunt(self, marker: WritableTxnMarker) -> None:
        try:
            response = await self.ask(
                WriteTxnMarkersRequest(markers=[marker]), version=self.random.choice(VERSIONS)
            )
        except LostConnection:
            return
        error = response.markers[0].topics[0].partitions[0].error_code
        if error == ErrorCode.NONE:
            raise BrokenPromise(f"a marker of an older coordinator was taken: {marker}")
