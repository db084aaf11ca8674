"""Producers that write transactions to several partitions through every crash, and keep the outcome of each.

A value is `producer:transaction:partition:index`. When an end was answered, its transaction is complete or absent,
as the response says. When the broker died before it answered, it is one of the two, and a retry of the same end must
succeed. The next producer with the same id aborts an open transaction.
"""

from __future__ import annotations

import contextlib
import random
import threading
from dataclasses import dataclass, field
from enum import Enum

from harness.requests import ClosedByPeer
from harness.transactions import (
    ADDING,
    VERIFYING,
    Identity,
    TransactionalProducer,
    await_transactions,
    settled,
)
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode

RECONNECT_SECONDS = 0.02
GIVE_UP_SECONDS = 120.0
NOT_YET = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""Errors of a broker that has just started."""


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "not answered"


@dataclass(slots=True)
class ProducerHistory:
    """What one producer did."""

    name: str
    values: dict[int, set[tuple[int, bytes]]] = field(default_factory=dict)
    """By transaction: partition and value of every record sent."""
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    ended: int = 0
    """Transactions whose end was answered."""
    errors: list[str] = field(default_factory=list)


class RawTransactionalProducer:
    """One transaction after the other on one connection, with the protocol before KIP-890 or since."""

    def __init__(
        self, port: int, name: str, topic: str, partitions: list[int], *, is_version_2: bool, seed: int
    ) -> None:
        self.history = ProducerHistory(name)
        self._port = port
        self._topic = topic
        self._partitions = partitions
        self._produce_version, self._end_version = (ADDING, 5) if is_version_2 else (VERIFYING, 4)
        self._random = random.Random(seed)
        self._number = 0
        self._unanswered: tuple[int, int, int] | None = None
        """The transaction whose commit was not answered, with its producer id and epoch."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when its last transaction has ended."""
        self._stopping.set()
        self._thread.join(GIVE_UP_SECONDS)
        assert not self._thread.is_alive(), f"{self.history.name} did not stop"

    def roll_back(self) -> None:
        """Abort the transaction that it left open."""
        with WireConnection(self._port) as connection:
            TransactionalProducer.started(connection, self.history.name)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set() or self._unanswered is not None:
                try:
                    connection = WireConnection(self._port)
                except OSError:
                    self._stopping.wait(RECONNECT_SECONDS)
                    continue
                with connection, contextlib.suppress(ClosedByPeer, OSError):
                    self._transact(connection)
        except AssertionError as error:
            self.history.errors.append(f"{self.history.name}: {error}")

    def _transact(self, connection: WireConnection) -> None:
        producer = TransactionalProducer(connection, self.history.name)
        await_transactions(connection, self.history.name)
        if self._unanswered is not None and self._random.random() < 0.5:
            self._ask_again(producer, *self._unanswered)
        self._unanswered = None
        producer.init()
        while not self._stopping.is_set():
            if not self._write(producer) or self._random.random() < 0.1:
                producer.init()  # this aborts an open transaction
            elif not self._end(producer, is_commit=self._random.random() < 0.75):
                return

    def _write(self, producer: TransactionalProducer) -> bool:
        """False if the broker is not ready."""
        self._number += 1
        chosen = self._random.sample(self._partitions, self._random.randint(1, len(self._partitions)))
        self.history.values[self._number] = sent = set()
        self.history.outcomes[self._number] = Outcome.ABORTED  # until another request is sent
        if self._produce_version < ADDING:
            answers = producer.add({self._topic: chosen})
            if set(answers.values()) != {ErrorCode.NONE}:
                return self._refused("adding partitions", *answers.values())
        for partition in chosen:
            values = [
                b"%s:%d:%d:%d" % (self.history.name.encode(), self._number, partition, index)
                for index in range(self._random.randint(1, 4))
            ]
            sent |= {(partition, value) for value in values}
            answer = producer.attempt(
                self._topic, *values, partition=partition, version=self._produce_version
            )
            if answer.error_code is not ErrorCode.NONE:
                return self._refused("a write", answer.error_code)
        return True

    def _refused(self, what: str, *errors: ErrorCode) -> bool:
        for error in errors:
            if error not in NOT_YET | {ErrorCode.NONE}:
                self.history.errors.append(f"{self.history.name}: {what} was rejected: {error!r}")
        return False

    def _end(self, producer: TransactionalProducer, *, is_commit: bool) -> bool:
        if is_commit:
            self.history.outcomes[self._number] = Outcome.UNKNOWN
            self._unanswered = (self._number, *producer.identity)
        result = self._told(producer, is_commit=is_commit)
        self._unanswered = None
        if result.error is not ErrorCode.NONE:
            self.history.errors.append(f"{self.history.name}: an end was rejected: {result.error!r}")
            return False
        if is_commit:
            self.history.outcomes[self._number] = Outcome.COMMITTED
        if self._end_version >= 5:
            producer.go_on_with(result)
        self.history.ended += 1
        return True

    def _told(self, producer: TransactionalProducer, *, is_commit: bool) -> Identity:
        result: Identity = settled(
            lambda: producer.end(committed=is_commit, version=self._end_version), "an end is answered"
        )
        return result

    def _ask_again(
        self, producer: TransactionalProducer, number: int, producer_id: int, producer_epoch: int
    ) -> None:
        """Retry like a client without a response: the same end, by the same producer."""
        producer.producer_id, producer.producer_epoch = producer_id, producer_epoch
        result = self._told(producer, is_commit=True)
        self._unanswered = None
        if result.error is not ErrorCode.NONE:
            self.history.errors.append(
                f"{self.history.name}: the commit of {number} was retried, but rejected: {result.error!r}"
            )
        else:
            self.history.outcomes[number] = Outcome.COMMITTED
            self.history.ended += 1


def faults(history: ProducerHistory, found: dict[int, list[bytes]]) -> list[str]:
    """The faults of one producer's transactions, according to a read_committed reader."""
    prefix = b"%s:" % history.name.encode()
    seen: dict[int, list[tuple[int, bytes]]] = {number: [] for number in history.values}
    result = list(history.errors)
    for partition, values in found.items():
        before = (0, -1)
        for value in values:
            if not value.startswith(prefix):
                continue
            number, _, index = (int(part) for part in value[len(prefix) :].split(b":"))
            if (number, index) <= before:
                result.append(f"{history.name}: {value!r} is a duplicate or late in partition {partition}")
            before = (number, index)
            seen[number].append((partition, value))
    for number, outcome in history.outcomes.items():
        there, sent = set(seen[number]), history.values[number]
        if outcome is not Outcome.ABORTED and there == sent:
            continue
        if outcome is not Outcome.COMMITTED and not there:
            continue
        what = f"{len(there)} of {len(sent)} records are there"
        result.append(f"{history.name}: transaction {number} was {outcome.value}, but {what}")
    return result
