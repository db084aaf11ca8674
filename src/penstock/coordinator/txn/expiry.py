"""Transactional ids that nobody uses any more, and when they are forgotten.

Looked for every `transaction.remove.expired.transaction.cleanup.interval.ms`, in turns. An id whose transaction is open
or being ended stays, however old it is; that of a producer that comes back later is a new one to us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.config.broker import BrokerSettings
from penstock.coordinator.outcome import CoordinatorRecord, Outcome
from penstock.coordinator.timers import Timers
from penstock.coordinator.txn.records import TransactionLogKey
from penstock.coordinator.txn.transaction import AT_REST, Transaction

TIMER = ("expiry",)  # no transactional id, which are the other keys of timers, is a tuple

IDS_AT_ONCE = 2_000
"""After so many others get their turn on the event loop: a few milliseconds."""


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
        self._to_see: list[str] = []
        """Ids that this round has still to look at."""

    def start(self) -> None:
        interval_ms: int = self._settings().get("transaction.remove.expired.transaction.cleanup.interval.ms")
        self._timers.set(TIMER, interval_ms, self._begin)

    def _begin(self) -> Outcome[None]:
        self._to_see = list(self._transactions)
        return self._go_on()

    def _go_on(self) -> Outcome[None]:
        oldest_ms = self._wall_ms() - self._settings().get("transactional.id.expiration.ms")
        records = []
        for transactional_id in self._to_see[-IDS_AT_ONCE:]:
            transaction = self._transactions.get(transactional_id)
            if (
                transaction is not None
                and transaction.update_ms <= oldest_ms
                and transaction.state in AT_REST
            ):
                key = TransactionLogKey(transactional_id=transactional_id)
                records.append(CoordinatorRecord(key, None))
        del self._to_see[-IDS_AT_ONCE:]
        if self._to_see:
            self._timers.set(TIMER, 0, self._go_on)
        else:
            self.start()
        return Outcome(None, records)
