"""Random sequences of transaction requests, on two brokers at once: both must give the same answers.

The producers of a walk are either older ones, which add partitions themselves, or newer ones, which leave that to the
broker. Mostly they use their own id and epoch, sometimes a wrong one. Producer ids differ between the brokers, so they
are compared by the order in which they were first seen.

Left out, because Penstock answers differently on purpose: batches with a wrong epoch, and wrong sequence numbers of
older producers (Kafka then rejects later ones too), an init by a fenced producer while its successor has an open
transaction (Kafka aborts it), and ends with both protocol versions in turn (Kafka takes one with an older epoch for a
retry).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from harness.committed_reads import READ_UNCOMMITTED, aborted, read, seen
from harness.offset_requests import commit as commit_offsets
from harness.offset_requests import fetch as fetch_offsets
from harness.requests import ask, batch
from harness.transactions import (
    Identity,
    add,
    add_offsets,
    describe,
    end,
    init,
    produce,
    producers_of,
    state_of,
)
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

UNKNOWN_PRODUCER_ID = 1 << 40
"""A producer id that was never assigned."""

AGAIN = ErrorCode.CONCURRENT_TRANSACTIONS
PREPARED = ("PrepareCommit", "PrepareAbort")


class ProtocolVersions(NamedTuple):
    """The versions that producers of one generation use."""

    add: tuple[int, ...]
    add_offsets: tuple[int, ...]
    commit_offsets: tuple[int, ...]
    produce: tuple[int, ...]
    end: tuple[int, ...]


OLDER = ProtocolVersions(
    add=(0, 1, 2, 3, 4, 5),
    add_offsets=(0, 1, 2, 3, 4),
    commit_offsets=(0, 1, 2, 3, 4),
    produce=(3, 7, 9, 10, 11),
    end=(0, 1, 2, 3, 4),
)
NEWER = ProtocolVersions(add=(4, 5), add_offsets=(4,), commit_offsets=(5,), produce=(12, 13), end=(5,))


class ProducerRef(NamedTuple):
    """A producer as both brokers know it: the ordinal of its id, and its epoch."""

    number: int
    epoch: int


@dataclass
class Side:
    """One of the two brokers."""

    connection: WireConnection
    producer_ids: list[int] = field(default_factory=list)

    def number_of(self, producer_id: int) -> int:
        if producer_id < 0:
            return producer_id
        if producer_id not in self.producer_ids:
            self.producer_ids.append(producer_id)
        return self.producer_ids.index(producer_id)

    def identity_of(self, producer: ProducerRef) -> tuple[int, int]:
        known = producer.number < len(self.producer_ids)
        return self.producer_ids[producer.number] if known else UNKNOWN_PRODUCER_ID, producer.epoch

    def normalized(self, identity: Identity) -> tuple[ErrorCode, int, int]:
        return identity.error, self.number_of(identity.producer_id), identity.producer_epoch


class Step(NamedTuple):
    what: tuple[Any, ...]
    ask: Callable[[Side], Any]
    learn: Callable[[Any], None] = lambda answer: None
    may_repeat: bool = True
    """Whether a retriable error is no answer. For some requests it is one, since it starts something."""


class Walk:
    def __init__(
        self, rng: random.Random, dialect: ProtocolVersions, *, names: list[str], topic: str, group: str
    ) -> None:
        self._rng = rng
        self._dialect = dialect
        self._names = names
        self._topic = topic
        self._group = group
        self._known = {name: [ProducerRef(0, 0)] for name in names}
        self._sequences: dict[tuple[ProducerRef, int], int] = {}
        self._count = 0
        self._steps = [
            *[self._init, self._go_on, self._add, self._verify, self._add_offsets] * 1,
            *[self._send, self._end, self._commit_offsets] * 3,
            *[self._offsets, self._plain_commit, self._log, self._description] * 1,
        ]

    def step(self) -> Step:
        self._count += 1
        return self._rng.choice(self._steps)(self._rng.choice(self._names))

    def _init(self, name: str) -> Step:
        version, timeout_ms = self._rng.randrange(6), self._rng.choice([30_000, 60_000])
        return Step(
            ("init", name, version),
            lambda side: side.normalized(init(side.connection, name, version=version, timeout_ms=timeout_ms)),
            lambda answer: self._learn(name, answer),
            may_repeat=False,
        )

    def _go_on(self, name: str) -> Step:
        version, producer = self._rng.choice([3, 4, 5]), self._known[name][-1]

        def go_on(side: Side) -> tuple[ErrorCode, int, int]:
            producer_id, epoch = side.identity_of(producer)
            fields = {"producer_id": producer_id, "producer_epoch": epoch}
            return side.normalized(init(side.connection, name, version=version, **fields))

        return Step(
            ("go on", name, version, producer),
            go_on,
            lambda answer: self._learn(name, answer),
            may_repeat=False,
        )

    def _add(self, name: str, *, verify_only: bool = False) -> Step:
        version = self._rng.choice([4, 5] if verify_only else self._dialect.add)
        producer, partitions = self._someone(name), self._rng.choice([[0], [1], [0, 1], [2], [0, 2]])
        return Step(
            ("verify" if verify_only else "add", name, version, producer, partitions),
            lambda side: add(
                side.connection,
                name,
                *side.identity_of(producer),
                {self._topic: partitions},
                version=version,
                verify_only=verify_only,
            ),
        )

    def _verify(self, name: str) -> Step:
        return self._add(name, verify_only=True)

    def _add_offsets(self, name: str) -> Step:
        version, producer = self._rng.choice(self._dialect.add_offsets), self._someone(name)
        return Step(
            ("add offsets", name, version, producer),
            lambda side: add_offsets(
                side.connection, name, *side.identity_of(producer), self._group, version=version
            ),
        )

    def _send(self, name: str) -> Step:
        version, producer = self._rng.choice(self._dialect.produce), self._known[name][-1]
        partition, count, value = self._rng.randrange(2), self._rng.choice([1, 2]), b"%d" % self._count
        expected = self._sequences.get((producer, partition), 0)
        wrong = [expected + 1, max(0, expected - 1)] if self._dialect is NEWER else []
        sequence = self._rng.choice([expected] * 5 + wrong)

        def send(side: Side) -> tuple[ErrorCode, int]:
            producer_id, epoch = side.identity_of(producer)
            records = batch(
                *[value] * count,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
            answered = produce(
                side.connection,
                self._topic,
                records,
                partition=partition,
                transactional_id=name,
                version=version,
            )
            return answered.error_code, answered.base_offset

        def learn(answer: Any) -> None:
            if answer[0] is ErrorCode.NONE:
                self._sequences[producer, partition] = max(expected, sequence + count)

        return Step(("send", name, version, producer, partition, sequence, count), send, learn)

    def _end(self, name: str) -> Step:
        version, is_commit = self._rng.choice(self._dialect.end), self._rng.random() < 0.6
        producer = self._someone(name)
        return Step(
            ("commit" if is_commit else "abort", name, version, producer),
            lambda side: side.normalized(
                end(side.connection, name, *side.identity_of(producer), committed=is_commit, version=version)
            ),
            lambda answer: self._learn(name, answer),
        )

    def _commit_offsets(self, name: str) -> Step:
        version, producer = self._rng.choice(self._dialect.commit_offsets), self._someone(name)
        offset, partitions = self._count, self._rng.choice([[0], [1], [0, 1], [0, 2]])
        # From v3 on a request may name a group member; here there is none.
        is_member = version >= 3 and self._rng.random() < 0.1
        member = {"generation_id": 1, "member_id": "nobody"} if is_member else {}

        def commit(side: Side) -> list[tuple[int, ErrorCode]]:
            producer_id, epoch = side.identity_of(producer)
            request = TxnOffsetCommitRequest(
                transactional_id=name,
                group_id=self._group,
                producer_id=producer_id,
                producer_epoch=epoch,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        name=self._topic,
                        partitions=[
                            TxnOffsetCommitRequestPartition(
                                partition_index=index, committed_offset=offset, committed_metadata=""
                            )
                            for index in partitions
                        ],
                    )
                ],
                **member,
            )
            answered = ask(side.connection, request, version).topics
            return sorted(
                (each.partition_index, each.error_code) for topic in answered for each in topic.partitions
            )

        return Step(("commit offsets", name, version, producer, partitions, offset, is_member), commit)

    def _plain_commit(self, _: str) -> Step:
        offset = self._count
        return Step(
            ("commit offset", offset),
            lambda side: commit_offsets(side.connection, self._group, {self._topic: {0: offset}}),
        )

    def _offsets(self, _: str) -> Step:
        is_stable = self._rng.random() < 0.6
        return Step(
            ("offsets", is_stable),
            lambda side: fetch_offsets(
                side.connection, self._group, {self._topic: [0, 1]}, require_stable=is_stable
            ),
        )

    def _log(self, _: str) -> Step:
        partition = self._rng.randrange(2)

        def look(side: Side) -> Any:
            data = read(side.connection, self._topic, partition=partition)
            everything = read(
                side.connection, self._topic, partition=partition, isolation_level=READ_UNCOMMITTED
            )
            stable = data.last_stable_offset
            producers = producers_of(side.connection, self._topic, partition).active_producers
            return (
                data.high_watermark,
                stable,
                # Kafka may also return transactions that begin beyond the fetched records.
                [
                    (side.number_of(producer), first)
                    for producer, first in aborted(data) or []
                    if first < stable
                ],
                seen(everything),
                sorted(
                    (
                        side.number_of(each.producer_id),
                        each.producer_epoch,
                        each.last_sequence,
                        each.coordinator_epoch,
                        each.current_txn_start_offset,
                    )
                    for each in producers
                ),
            )

        return Step(("log", partition), look)

    def _description(self, name: str) -> Step:
        def look(side: Side) -> Any:
            found = describe(side.connection, name)
            return (
                found.error_code,
                found.transaction_state,
                found.transaction_timeout_ms,
                side.number_of(found.producer_id) if found.error_code is ErrorCode.NONE else None,
                found.producer_epoch,
                {topic.topic: sorted(topic.partitions) for topic in found.topics},
                found.transaction_start_time_ms > 0,
            )

        return Step(("describe", name), look)

    def _someone(self, name: str) -> ProducerRef:
        """Mostly the current producer of the name, sometimes an earlier or unknown one."""
        known = self._known[name]
        producer = self._rng.choice(known[-1:] * 5 + known[-3:])
        return ProducerRef(producer.number, max(0, producer.epoch + self._rng.choice([0] * 9 + [1, -1])))

    def _learn(self, name: str, answer: tuple[ErrorCode, int, int]) -> None:
        error, number, epoch = answer
        if error is AGAIN:  # of an init: it aborts the open transaction, which raises the epoch
            number, epoch = self._known[name][-1]
            self._known[name].append(ProducerRef(number, epoch + 1))
        elif error is ErrorCode.NONE and number >= 0 and self._known[name][-1] != (number, epoch):
            self._known[name].append(ProducerRef(number, epoch))


def take(walk: Walk, sides: tuple[Side, Side], *, names: list[str]) -> tuple[Step, Any, Any]:
    """One step on both brokers; both results when nothing is in flight any more."""
    step = walk.step()
    first, second = (step.ask(side) for side in sides)
    _await_rest(sides, names)
    while step.may_repeat and (_is_again(first) or _is_again(second)):
        first, second = (step.ask(side) for side in sides)
        _await_rest(sides, names)
    step.learn(second)
    return step, first, second


def _await_rest(sides: tuple[Side, Side], names: list[str]) -> None:
    for side in sides:
        for name in names:
            wait_until(
                lambda side=side, name=name: state_of(side.connection, name) not in PREPARED,
                f"the transaction of {name} has ended",
            )


def _is_again(answer: Any) -> bool:
    return AGAIN in (
        answer.values() if isinstance(answer, dict) else answer if isinstance(answer, tuple) else [answer]
    )
