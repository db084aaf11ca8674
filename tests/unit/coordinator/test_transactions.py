"""Transactional records: written by the runtime, and loaded from the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.coordinator_log import ListLog
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult, ProducerIdentity
from penstock.coordinator.runtime import CoordinatorRuntime
from penstock.coordinator.serde import RecordSerde
from penstock.coordinator.shard import ShardContext
from penstock.coordinator.timeline import TimelineMap
from penstock.metadata.errors import Refused
from penstock.protocol.declare import record
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32
from penstock.records import kernel
from penstock.records.control import TxnMarkerEntry
from simulator.loop import VirtualLoop, run_virtual

ANNA, BERT = ProducerIdentity(7, 2), ProducerIdentity(8, 0)


@record(key=7, versions=(0, 0))
class NoteKey:
    name: str


@record(key=7, versions=(0, 0))
class NoteValue:
    number: Int32


class NoteShard:
    def __init__(self, context: ShardContext) -> None:
        self.notes: TimelineMap[str, int] = TimelineMap(context.timeline)
        self.events: list[tuple[object, ...]] = []

    def replay(self, key: NoteKey, value: NoteValue | None) -> None:
        self.events.append((key.name, None if value is None else value.number))

    def replay_in_transaction(self, producer_id: int, key: NoteKey, value: NoteValue | None) -> None:
        assert value is not None
        self.events.append((producer_id, key.name, value.number))

    def transaction_ended(self, producer_id: int, is_commit: bool) -> None:
        self.events.append((producer_id, "commit" if is_commit else "abort"))
        self.notes["ended"] = producer_id

    def loaded(self) -> None:
        pass

    def unloaded(self) -> None:
        pass


class PlainShard(NoteShard):
    replay_in_transaction = None  # type: ignore[assignment]


def make_runtime(log: ListLog, make_shard: Any = NoteShard) -> CoordinatorRuntime[NoteShard]:
    return CoordinatorRuntime(
        topic="__notes",
        log=log,
        make_framing=lambda: RecordSerde([(NoteKey, NoteValue)]),
        make_shard=make_shard,
        wall_ms=lambda: 1_700_000_000_000,
    )


Scenario = Callable[[CoordinatorRuntime[NoteShard], ListLog], Any]


def play(scenario: Scenario) -> None:
    async def main() -> None:
        log = ListLog()
        runtime = make_runtime(log)
        runtime.elected(0)
        await scenario(runtime, log)
        await runtime.close()

    run_virtual(VirtualLoop(), main())


def note(
    runtime: CoordinatorRuntime[NoteShard],
    name: str,
    number: int | None,
    producer: ProducerIdentity | None = None,
) -> Any:
    value = None if number is None else NoteValue(number=number)
    records = [CoordinatorRecord(NoteKey(name=name), value)]
    return runtime.write(0, lambda shard: CoordinatorResult("done", records, producer=producer))


def end(runtime: CoordinatorRuntime[NoteShard], producer: ProducerIdentity, *, commit: bool = True) -> Any:
    marker = TxnMarkerEntry(producer.producer_id, producer.producer_epoch, 3, commit, 1)
    return runtime.end_transaction(0, marker)


def shard_of(runtime: CoordinatorRuntime[NoteShard]) -> NoteShard:
    return runtime.read(0, lambda shard: shard)


async def loaded(log: ListLog) -> list[tuple[object, ...]]:
    """The state of a new coordinator."""
    other = make_runtime(log)
    other.elected(0)
    await asyncio.sleep(1)
    events = shard_of(other).events
    await other.close()
    return events


# -- writing


def test_records_of_a_transaction_are_one_batch_of_its_producer_without_a_sequence() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        records = [
            CoordinatorRecord(NoteKey(name=f"{index:05d}" + "x" * 1000), NoteValue(number=index))
            for index in range(2000)
        ]

        assert runtime.write(0, lambda shard: CoordinatorResult("done", records, producer=ANNA)) == "done"

        (batch,) = log.batches[0]
        header = kernel.check_batch(memoryview(batch))
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, -1)
        assert (header.record_count, header.is_transactional, header.is_control) == (2000, True, False)
        assert shard_of(runtime).events[-1] == (7, "01999" + "x" * 1000, 1999)

    play(scenario)


def test_the_guard_is_passed_to_the_log() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        guard = object()

        note(runtime, "a", 1, ANNA._replace(guard=guard))
        note(runtime, "a", 2, ANNA)

        assert log.guards == [guard, None]

    play(scenario)


def test_a_refused_write_in_a_transaction_is_not_replayed_and_keeps_its_error() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        for refusal, reported in (
            (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
            (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        ):
            log.refusal = refusal
            with pytest.raises(Refused) as caught:
                note(runtime, "a", 1, ANNA)
            assert caught.value.error is reported
        assert not shard_of(runtime).events

    play(scenario)


def test_the_end_of_a_transaction_is_a_marker_of_its_producer() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        note(runtime, "a", 1, ANNA)

        assert end(runtime, ANNA) is None

        header = kernel.check_batch(memoryview(log.batches[0][-1]))
        assert (header.producer_id, header.producer_epoch, header.is_control) == (7, 2, True)
        assert shard_of(runtime).events == [(7, "a", 1), (7, "commit")]

    play(scenario)


def test_changes_of_a_marker_are_visible_when_it_is_committed() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        log.commits_at_once = False
        written = note(runtime, "a", 1, ANNA)

        ended = end(runtime, ANNA)

        notes = shard_of(runtime).notes
        assert (notes["ended"], notes.committed("ended")) == (7, None)
        assert not written.done()
        assert not ended.done()
        log.commit()
        assert (await written, await ended) == ("done", None)
        assert notes.committed("ended") == 7

    play(scenario)


def test_a_refused_marker_changes_nothing_and_returns_the_error_of_the_log() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        log.refusal = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        with pytest.raises(Refused) as caught:
            end(runtime, ANNA)
        assert caught.value.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert not shard_of(runtime).events

        runtime.resigned(0)
        with pytest.raises(Refused) as caught:
            end(runtime, ANNA)
        assert caught.value.error is ErrorCode.NOT_COORDINATOR

    play(scenario)


def test_a_request_that_waits_for_a_marker_fails_when_another_node_leads() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        log.commits_at_once = False
        ended = end(runtime, ANNA)

        log.lose_leadership()

        with pytest.raises(Refused) as caught:
            await ended
        assert caught.value.error is ErrorCode.NOT_COORDINATOR

    play(scenario)


# -- loading


def test_a_committed_transaction_is_loaded_like_other_records() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        note(runtime, "a", 1, ANNA)
        note(runtime, "b", 2)
        note(runtime, "a", 3, ANNA)
        end(runtime, ANNA)

        assert await loaded(log) == [("b", 2), ("a", 3)]

    play(scenario)


def test_an_aborted_transaction_changes_nothing() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        note(runtime, "a", 1)
        note(runtime, "a", 2, ANNA)
        end(runtime, ANNA, commit=False)

        assert await loaded(log) == [("a", 1)]

    play(scenario)


def test_an_open_transaction_is_loaded_as_open() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        note(runtime, "a", 1)
        note(runtime, "a", 2, ANNA)
        note(runtime, "a", 3, BERT)
        note(runtime, "a", 4, ANNA)

        assert await loaded(log) == [("a", 1), (8, "a", 3), (7, "a", 4)]

    play(scenario)


def test_a_record_after_a_transactional_record_is_newer_whenever_the_transaction_ends() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        note(runtime, "a", 1, ANNA)
        note(runtime, "a", 2)
        note(runtime, "b", 3, ANNA)
        note(runtime, "b", 4, BERT)
        end(runtime, BERT)
        end(runtime, ANNA)

        assert await loaded(log) == [("a", 2), ("b", 4)]

    play(scenario)


def test_an_open_transaction_is_loaded_in_offset_order() -> None:
    """So that the shard knows which record is newer if the transaction is committed."""

    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        note(runtime, "a", 1, ANNA)
        note(runtime, "a", 2, BERT)
        note(runtime, "b", None)
        note(runtime, "a", 3, ANNA._replace(producer_id=9))
        end(runtime, BERT)

        assert await loaded(log) == [(7, "a", 1), ("a", 2), ("b", None), (9, "a", 3)]

    play(scenario)


def test_an_offset_deleted_meanwhile_is_removed_from_the_open_transaction() -> None:
    """A deleted and rewritten key used to have an open transaction again after loading."""

    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        note(runtime, "a", 1, ANNA)
        note(runtime, "a", None)
        note(runtime, "a", 2)
        note(runtime, "b", 3, ANNA)

        assert await loaded(log) == [("a", 2), (7, "b", 3)]

    play(scenario)


def test_a_producer_may_have_one_transaction_after_the_other() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        note(runtime, "a", 1, ANNA)
        end(runtime, ANNA)
        note(runtime, "a", 2, ANNA)
        end(runtime, ANNA, commit=False)
        note(runtime, "b", 3, ANNA)

        assert await loaded(log) == [("a", 1), (7, "b", 3)]

    play(scenario)


def test_a_marker_without_records_is_ignored() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        end(runtime, ANNA)
        end(runtime, BERT, commit=False)

        assert await loaded(log) == []

    play(scenario)


def test_a_shard_without_transactions_is_not_served_from_a_log_with_an_open_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        note(runtime, "a", 1, ANNA)
        other = make_runtime(log, PlainShard)
        other.elected(0)
        await asyncio.sleep(1)

        with pytest.raises(Refused) as caught:
            other.read(0, lambda shard: shard)
        assert caught.value.error is ErrorCode.NOT_COORDINATOR
        await other.close()

    play(scenario)
    assert "producer 7 has an open transaction" in caplog.text


def test_a_shard_that_cannot_replay_a_marker_is_reloaded_and_the_marker_has_to_be_retried() -> None:
    async def scenario(runtime: CoordinatorRuntime[NoteShard], log: ListLog) -> None:
        runtime.elected(0)
        first = runtime.read(0, lambda shard: shard)
        first.transaction_ended = None  # type: ignore[assignment, method-assign]
        marker = TxnMarkerEntry(
            producer_id=7, producer_epoch=2, coordinator_epoch=0, is_commit=True, transaction_version=0
        )

        with pytest.raises(Refused) as caught:
            runtime.end_transaction(0, marker)
        assert caught.value.error is ErrorCode.NOT_COORDINATOR

        await asyncio.sleep(1)
        assert runtime.end_transaction(0, marker) is None
        assert runtime.read(0, lambda shard: shard.notes["ended"]) == 7

    play(scenario)
