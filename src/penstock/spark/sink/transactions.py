"""The sink's connection to its cluster: the decision log, the ends of transactions, and producers for tasks.

`SinkAdmin` implements the `Port` of `protocol`. It runs on its own thread and is kept, together with the ledgers it
has read, for the next task or commit of the process: Spark keeps the process for commits too, and recreates only the
writer.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from penstock.client import errors
from penstock.client.admin.aio import Admin
from penstock.client.admin.configs import ConfigResource
from penstock.client.admin.transactions import TransactionState
from penstock.client.background import Background
from penstock.client.cluster_client import CoordinatorKind
from penstock.client.prepared_transaction import PreparedTransaction
from penstock.client.producer.sync import Producer
from penstock.client.settings import AdminSettings, ProducerSettings
from penstock.spark.clients import POOL, known
from penstock.spark.sink.decision import Ledger, TaskAttempt, ids_of
from penstock.spark.sink.decisions import PATIENCE_S, DecisionsAdmin
from penstock.spark.sink.protocol import Assignment, assign

T = TypeVar("T")

Settings = Mapping[str, object]

PATIENCE_MS = 180_000  # timeouts of the sink's producers: a broker may be unavailable for that long
LEDGERS_MAX = 100  # every batch write is a separate sink; a dropped ledger is read again from the log
TIMEOUT = "transaction.timeout.ms"
TWO_PHASE = "transaction.two.phase.commit.enable"


class SinkAdmin(DecisionsAdmin, Admin):
    """An Admin with the calls of a sink."""

    async def complete(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> list[bool]:
        ids = [each.transactional_id for each in transactions if not each.is_empty]
        if ids:  # one request for all; otherwise each would look up its own coordinator
            deadline_ms = self._client.deadline(round(PATIENCE_S * 1000))
            await self._client.coordinators(CoordinatorKind.TRANSACTION, ids, deadline_ms=deadline_ms)
        return await asyncio.gather(*(self._complete(each, commit=commit) for each in transactions))

    async def _complete(self, transaction: PreparedTransaction, *, commit: bool) -> bool:
        try:
            await self.complete_transaction(transaction, commit=commit, timeout=PATIENCE_S)
        except (errors.TransactionNotCommitted, errors.TransactionNotAborted):
            return False
        return True

    async def open_ids(self, sink: str, prefixes: Collection[str]) -> list[str]:
        listed = await self.list_transactions(states=[TransactionState.ONGOING], timeout=PATIENCE_S)
        begins = tuple(ids_of(prefix, sink) for prefix in prefixes)
        return [each.transactional_id for each in listed if each.transactional_id.startswith(begins)]

    async def fence(self, transactional_id: str) -> None:
        await self.fence_producer(transactional_id, timeout=PATIENCE_S)

    async def is_open(self, transactional_id: str) -> bool:
        try:
            described = await self.describe_transaction(transactional_id, timeout=PATIENCE_S)
        except errors.TransactionalIdNotFound:
            return False
        return described.state is TransactionState.ONGOING

    async def longest_timeout_ms(self) -> str:
        """The brokers' limit for transactions without two-phase commit."""
        cluster = await self.describe_cluster(timeout=PATIENCE_S)
        broker = ConfigResource.broker(cluster.brokers[0].id)
        described = await self.describe_configs(
            [broker], names=["transaction.max.timeout.ms"], timeout=PATIENCE_S
        )
        return str(described[broker]["transaction.max.timeout.ms"].value)


class SinkConnection:
    """A worker process's connection to one cluster, kept between tasks."""

    def __init__(self, settings: Settings) -> None:
        self._settings = dict(settings)
        self._background = Background("penstock-sink")
        self._admin = SinkAdmin.of(admin_settings(settings))
        self._ledgers: dict[str, Ledger] = {}
        self._has_two_phases = True
        """Until the broker says otherwise."""
        self._longest_ms: str | None = None

    def run(self, work: Callable[[SinkAdmin], Coroutine[Any, Any, T]]) -> T:
        return self._background.call(lambda: work(self._admin))

    def assign(self, task_attempt: TaskAttempt, *, prefix: str) -> Assignment:
        ledger = self._ledgers.get(task_attempt.sink)
        assignment = self.run(lambda admin: assign(admin, ledger, task_attempt, prefix=prefix))
        self._ledgers[task_attempt.sink] = assignment.ledger
        if len(self._ledgers) > LEDGERS_MAX:
            del self._ledgers[next(iter(self._ledgers))]
        return assignment

    def begin(self, transactional_id: str, *, is_two_phase: bool) -> Producer:
        """A producer in a transaction that may stay open: without limit if the broker allows two-phase commit and
        another process is sure to end it, otherwise for as long as the broker allows.

        If the id has an open transaction, another id is used. When Spark repeats a stage, a task of the first
        attempt may still run or have prepared the output that will count, and nothing tells the two apart.
        """
        if self.run(lambda admin: admin.is_open(transactional_id)):
            transactional_id = f"{transactional_id}.{uuid.uuid4().hex[:8]}"
        if TIMEOUT in self._settings:
            return self._begin(transactional_id, {})
        if is_two_phase and self._has_two_phases:
            try:
                return self._begin(transactional_id, {TWO_PHASE: "true"})
            except errors.TwoPhaseCommitUnavailable:
                self._has_two_phases = False
        if self._longest_ms is None:
            self._longest_ms = self.run(SinkAdmin.longest_timeout_ms)
        return self._begin(transactional_id, {TIMEOUT: self._longest_ms})

    def _begin(self, transactional_id: str, settings: Settings) -> Producer:
        own = with_long_timeouts(self._settings) | {"transactional.id": transactional_id}
        producer = Producer(settings=own | dict(settings))
        try:
            producer.begin()
        except BaseException:
            producer.close()
            raise
        return producer

    def close(self) -> None:
        if self._background.is_running and not self._background.is_forked:
            self._background.call(self._admin.close)
        self._background.close()


def connection_of(settings: Settings) -> contextlib.AbstractContextManager[SinkConnection]:
    """This process's connection to a cluster, pooled like clients."""
    return POOL.lend("sink", settings, lambda: SinkConnection(settings))


def with_long_timeouts(settings: Settings) -> dict[str, object]:
    """The settings of a sink's producer. The user's settings stay; limits that follow from them may be even longer."""
    own = known(settings, ProducerSettings)
    least_ms = ProducerSettings.of(settings=own).get("delivery.timeout.ms")
    delivery_ms = max(PATIENCE_MS, least_ms)
    return {"max.block.ms": str(PATIENCE_MS), "delivery.timeout.ms": str(delivery_ms), **own}


def admin_settings(settings: Settings) -> AdminSettings:
    return AdminSettings.of(None, known(settings, AdminSettings), {})
