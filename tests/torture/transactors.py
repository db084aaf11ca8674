"""Producers that write transactions over several partitions through every crash, and remember what became of each.

A value is `transactor:transaction:partition:index`. When an end was answered, its transaction is whole or not there at
all, as the answer says; when the broker died before it answered, one of the two, and whoever asks for the same end
again must get it. A transaction that was left without an end is rolled back by the next one of the same name.
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
"""What a broker that just started may answer to a write."""


class Outcome(Enum):
    COMMITTED = "committed"
    ABORTED = "rolled back"
    UNKNOWN = "answered by nobody"


@dataclass(slots=True)
class Story:
    """What one transactor did."""

    name: str
    values: dict[int, set[tuple[int, bytes]]] = field(default_factory=dict)
    """By transaction: the partition and the value of every record that was sent."""
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    ended: int = 0
    """Transactions whose end was answered."""
    complaints: list[str] = field(default_factory=list)


class RawTransactor:
    """One transaction after the other on one connection, of the version of before KIP-890 or of the one since."""

    def __init__(
        self, port: int, name: str, topic: str, partitions: list[int], *, is_version_2: bool, seed: int
    ) -> None:
        self.story = Story(name)
        self._port = port
        self._topic = topic
        self._partitions = partitions
        self._produce_version, self._end_version = (ADDING, 5) if is_version_2 else (VERIFYING, 4)
        self._random = random.Random(seed)
        self._number = 0
        self._unanswered: tuple[int, int, int] | None = None
        """The transaction whose commit nobody answered, and the producer id and epoch that asked for it."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when what it began is ended."""
        self._stopping.set()
        self._thread.join(GIVE_UP_SECONDS)
        assert not self._thread.is_alive(), f"{self.story.name} does not end"

    def roll_back(self) -> None:
        """What it left without an end, after it stopped."""
        with WireConnection(self._port) as connection:
            TransactionalProducer.started(connection, self.story.name)

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
            self.story.complaints.append(f"{self.story.name}: {error}")

    def _transact(self, connection: WireConnection) -> None:
        producer = TransactionalProducer(connection, self.story.name)
        await_transactions(connection, self.story.name)
        if self._unanswered is not None and self._random.random() < 0.5:
            self._ask_again(producer, *self._unanswered)
        self._unanswered = None
        producer.init()
        while not self._stopping.is_set():
            if not self._write(producer) or self._random.random() < 0.1:
                producer.init()  # which rolls back what is open
            elif not self._end(producer, is_commit=self._random.random() < 0.75):
                return

    def _write(self, producer: TransactionalProducer) -> bool:
        """False where the broker is not ready for it."""
        self._number += 1
        chosen = self._random.sample(self._partitions, self._random.randint(1, len(self._partitions)))
        self.story.values[self._number] = sent = set()
        self.story.outcomes[self._number] = Outcome.ABORTED  # as long as nobody asks for anything else
        if self._produce_version < ADDING:
            answers = producer.add({self._topic: chosen})
            if set(answers.values()) != {ErrorCode.NONE}:
                return self._refused("adding partitions", *answers.values())
        for partition in chosen:
            values = [
                b"%s:%d:%d:%d" % (self.story.name.encode(), self._number, partition, index)
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
                self.story.complaints.append(f"{self.story.name}: {what} was refused: {error!r}")
        return False

    def _end(self, producer: TransactionalProducer, *, is_commit: bool) -> bool:
        if is_commit:
            self.story.outcomes[self._number] = Outcome.UNKNOWN
            self._unanswered = (self._number, *producer.identity)
        told = self._told(producer, is_commit=is_commit)
        self._unanswered = None
        if told.error is not ErrorCode.NONE:
            self.story.complaints.append(f"{self.story.name}: an end was refused: {told.error!r}")
            return False
        if is_commit:
            self.story.outcomes[self._number] = Outcome.COMMITTED
        if self._end_version >= 5:
            producer.go_on_with(told)
        self.story.ended += 1
        return True

    def _told(self, producer: TransactionalProducer, *, is_commit: bool) -> Identity:
        told: Identity = settled(
            lambda: producer.end(committed=is_commit, version=self._end_version), "an end is answered"
        )
        return told

    def _ask_again(
        self, producer: TransactionalProducer, number: int, producer_id: int, producer_epoch: int
    ) -> None:
        """As a client does that got no answer: the same end, by the same producer."""
        producer.producer_id, producer.producer_epoch = producer_id, producer_epoch
        told = self._told(producer, is_commit=True)
        self._unanswered = None
        if told.error is not ErrorCode.NONE:
            self.story.complaints.append(
                f"{self.story.name}: the commit of {number} was asked for again, and refused: {told.error!r}"
            )
        else:
            self.story.outcomes[number] = Outcome.COMMITTED
            self.story.ended += 1


def faults(story: Story, found: dict[int, list[bytes]]) -> list[str]:
    """What is wrong with the transactions of one transactor, by what a reader of committed records finds; in words."""
    prefix = b"%s:" % story.name.encode()
    seen: dict[int, list[tuple[int, bytes]]] = {number: [] for number in story.values}
    result = list(story.complaints)
    for partition, values in found.items():
        before = (0, -1)
        for value in values:
            if not value.startswith(prefix):
                continue
            number, _, index = (int(part) for part in value[len(prefix) :].split(b":"))
            if (number, index) <= before:
                result.append(f"{story.name}: {value!r} comes twice or too late in partition {partition}")
            before = (number, index)
            seen[number].append((partition, value))
    for number, outcome in story.outcomes.items():
        there, sent = set(seen[number]), story.values[number]
        if outcome is not Outcome.ABORTED and there == sent:
            continue
        if outcome is not Outcome.COMMITTED and not there:
            continue
        what = f"{len(there)} of {len(sent)} records are there"
        result.append(f"{story.name}: transaction {number} was {outcome.value}, but {what}")
    return result
