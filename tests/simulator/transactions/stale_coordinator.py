"""A former coordinator whose markers arrive late and must be rejected.

It sends what an earlier leader of the `__transaction_state` partition would have sent: the end of a transaction, with
an old coordinator epoch. A partition that accepts it ends another producer's open transaction.
"""

from __future__ import annotations

import asyncio

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from simulator.clients.client import LostConnection, SimulatedClient
from simulator.simulation import BrokenPromise
from simulator.transactions.shared import SharedState

VERSIONS = (1, 2)
PAUSE_S_MAX = 0.4


class StaleCoordinator(SimulatedClient):
    def __init__(self, shared: SharedState, name: str) -> None:
        super().__init__(shared.simulation, name)
        self._shared = shared

    async def run(self) -> None:
        while not self._shared.conditions.is_over():
            await asyncio.sleep(self.random.uniform(0, PAUSE_S_MAX))
            known = [(where, epochs) for where, epochs in self._shared.markers.items() if epochs[1] > 0]
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
                await self._send_marker(marker)

    async def _send_marker(self, marker: WritableTxnMarker) -> None:
        try:
            response = await self.ask(
                WriteTxnMarkersRequest(markers=[marker]), version=self.random.choice(VERSIONS)
            )
        except LostConnection:
            return
        error = response.markers[0].topics[0].partitions[0].error_code
        if error == ErrorCode.NONE:
            raise BrokenPromise(f"a marker of an older coordinator was accepted: {marker}")
