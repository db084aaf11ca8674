"""Expiration of transactional ids that are not used any more (`transactional.id.expiration.ms`).

It runs every `transaction.remove.expired.transaction.cleanup.interval.ms`, in steps. An id whose transaction is open or
being completed never expires. A producer that returns later starts with a new producer id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.config.broker import BrokerSettings
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult
from penstock.coordinator.timers import Timers
from penstock.coordinator.txn.records import TransactionLogKey
from penstock.coordinator.txn.transaction import NOT_OPEN, Transaction

TIMER = ("expiry",)  # the other timer keys are transactional ids, which are no tuples

IDS_AT_ONCE = 2_000
"""Checked before the event loop runs other tasks: a few milliseconds."""


class Expiry:
    def __init__(
        self,
        transactions: Mapping[str, Transaction],
        timers: Timers,
        *,
        settings: Callable[[], BrokerSettings],
        wall_ms: Callable[[], int],
    ) -> None:
        self._transactions = transactions
        self._timers = timers
        self._settings = settings
        self._wall_ms = wall_ms
        self._unchecked: list[str] = []
        """The ids that this round still has to check."""

    def start(self) -> None:
        interval_ms: int = self._settings().get("transaction.remove.expired.transaction.cleanup.interval.ms")
        self._timers.set(TIMER, interval_ms, self._begin)

    def _begin(self) -> CoordinatorResult[None]:
        self._unchecked = list(self._transactions)
        return self._step()

    def _step(self) -> CoordinatorResult[None]:
        oldest_ms = self._wall_ms() - self._settings().get("transactional.id.expiration.ms")
        records = []
        for transactional_id in self._unchecked[-IDS_AT_ONCE:]:
            transaction = self._transactions.get(transactional_id)
            if (
                transaction is not None
                and transaction.update_ms <= oldest_ms
                and transaction.state in NOT_OPEN
            ):
                key = TransactionLogKey(transactional_id=transactional_id)
                records.append(CoordinatorRecord(key, None))
        del self._unchecked[-IDS_AT_ONCE:]
        if self._unchecked:
            self._timers.set(TIMER, 0, self._step)
        else:
            self.start()
        return CoordinatorResult(None, records)
