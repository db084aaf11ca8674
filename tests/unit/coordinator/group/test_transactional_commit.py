"""Offsets committed in transactions: who may, when they hold, and what asks for them in between."""

from __future__ import annotations

import asyncio

import pytest

from harness.offsets import GROUP, ObedientGroup
from harness.transactional_offsets import (
    PRODUCER,
    CoordinatorStage,
    errors_of,
    play,
    transactional_request,
)
from penstock.coordinator.framing import RecordFraming
from penstock.coordinator.group.records import TYPES
from penstock.coordinator.group.transactional_commit import has_known_partitions, refuse
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.records.control import EndedTransaction

NOTHING = (-1, -1, "", ErrorCode.NONE)
UNSTABLE = (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)

OTHER = 8


# -- who may commit


def test_offsets_hold_when_the_transaction_is_committed() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        errors = stage.commit_in_transaction(
            {"orders": {0: 7, 2: 9}, "payments": {0: 1}}, metadata="note", leader_epoch=3
        )
        assert errors == [ErrorCode.NONE] * 3
        assert stage.stored() == {}

        stage.end()

        assert stage.fetch() == {
            ("orders", 0): (7, 3, "note", ErrorCode.NONE),
            ("orders", 2): (9, 3, "note", ErrorCode.NONE),
            ("payments", 0): (1, 3, "note", ErrorCode.NONE),
        }

    play(scenario)


def test_offsets_of_an_aborted_transaction_never_were() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit({"orders": {0: 3}})
        stage.commit_in_transaction({"orders": {0: 7, 1: 7}})

        stage.end(commit=False)

        assert stage.stored() == {("orders", 0): 3}
        assert stage.fetch(stable=True) == {("orders", 0): (3, -1, "", ErrorCode.NONE)}

    play(scenario)


def test_they_stand_in_the_log_as_kafka_writes_them() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit_in_transaction({"orders": {0: 7}}, epoch=5)

        (batch,) = stage.log.batches[0]
        header = kernel.check_batch(memoryview(batch))
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PRODUCER, 5, -1)
        assert header.is_transactional
        (record,) = kernel.iterate_records(batch)
        assert record.key is not None
        key, value = RecordFraming(TYPES).decode(record.key, record.value)
        assert (key.group, key.topic, key.partition, value.offset) == (GROUP, "orders", 0, 7)

    play(scenario)


def test_the_group_decides_who_may_commit() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        group = stage.shard.context.groups[GROUP] = ObedientGroup()

        stage.commit_in_transaction(
            {"orders": {0: 7}}, member="m-1", instance="instance", generation=5, version=3
        )

        assert group.asked == [
            {
                "member_id": "m-1",
                "instance_id": "instance",
                "generation_or_epoch": 5,
                "is_transactional": True,
                "version": 3,
            }
        ]

    play(scenario)


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID),
        (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_what_a_group_refuses_is_refused_for_all_partitions_that_exist(
    refusal: ErrorCode, told: ErrorCode
) -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.shard.context.groups[GROUP] = ObedientGroup(refuses=refusal)

        errors = stage.commit_in_transaction({"orders": {0: 7, 3: 7}, "nowhere": {0: 7}})

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors == [told, unknown, unknown]
        assert not stage.log.batches

    play(scenario)


def test_a_partition_that_a_late_member_does_not_have_spoils_the_whole_commit() -> None:
    """KIP-1251, told as the older error that producers know."""

    async def scenario(stage: CoordinatorStage) -> None:
        group = stage.shard.context.groups[GROUP] = ObedientGroup()

        def check(topic_id: Uuid, partition: int) -> None:
            if partition == 2:
                raise Refused(ErrorCode.STALE_MEMBER_EPOCH)

        group.partition_check = check

        assert stage.commit_in_transaction({"orders": {0: 7, 2: 7}}) == [ErrorCode.ILLEGAL_GENERATION] * 2
        assert not stage.log.batches
        assert stage.commit_in_transaction({"orders": {0: 7, 1: 7}}) == [ErrorCode.NONE] * 2

    play(scenario)


def test_a_member_of_a_group_that_is_not_there_is_of_another_generation() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        errors = stage.commit_in_transaction({"orders": {0: 7}}, member="m", generation=3)

        assert errors == [ErrorCode.ILLEGAL_GENERATION]
        assert GROUP not in stage.shard.context.groups

    play(scenario)


def test_whoever_commits_without_a_group_makes_a_simple_one() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit_in_transaction({"orders": {0: 7}})

        group = stage.shard.context.groups[GROUP]
        assert (group.state_name(), group.protocol_type) == ("Empty", "")

    play(scenario)


def test_partitions_that_do_not_exist_and_notes_that_are_too_long_are_refused_one_by_one() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        errors = stage.commit_in_transaction({"orders": {0: 7, 3: 7, -1: 7}, "nowhere": {0: 7}})
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors == [ErrorCode.NONE, unknown, unknown, unknown]

        errors = stage.commit_in_transaction({"orders": {1: 7, 5: 7}}, metadata="12345")
        assert errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE, unknown]

        stage.end()
        assert stage.stored() == {("orders", 0): 7}

    play(scenario, {"offset.metadata.max.bytes": "4"})


def test_there_is_something_to_commit_if_one_partition_exists() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        image = stage.cluster.metadata.image
        assert has_known_partitions(transactional_request({"nowhere": {0: 1}, "orders": {2: 1}}), image)
        assert not has_known_partitions(transactional_request({"nowhere": {0: 1}, "orders": {3: 1}}), image)
        assert not has_known_partitions(transactional_request({}), image)

    play(scenario)


@pytest.mark.parametrize(
    ("version", "told"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_old_producers_do_not_know_that_a_coordinator_is_loading(version: int, told: ErrorCode) -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        refused = refuse(
            transactional_request({"orders": {0: 7}}),
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            image=stage.cluster.metadata.image,
            version=version,
        )
        assert errors_of(refused) == [told]

    play(scenario)


def test_a_commit_that_the_log_refuses_leaves_no_trace() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.log.refusal = ErrorCode.INVALID_TXN_STATE

        with pytest.raises(Refused) as caught:
            stage.commit_in_transaction({"orders": {0: 7}})

        assert caught.value.error is ErrorCode.INVALID_TXN_STATE
        assert GROUP not in stage.shard.context.groups
        assert not stage.shard.offsets.pending

    play(scenario)


# -- questions meanwhile


def test_whoever_wants_stable_offsets_is_told_which_are_not() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit({"orders": {0: 3, 1: 4}})
        stage.commit_in_transaction({"orders": {0: 7}, "payments": {0: 9}})

        everything = {"orders": [0, 1, 2], "payments": [0]}
        assert stage.fetch(everything, stable=True) == {
            ("orders", 0): UNSTABLE,
            ("orders", 1): (4, -1, "", ErrorCode.NONE),
            ("orders", 2): NOTHING,
            ("payments", 0): UNSTABLE,
        }
        assert stage.fetch(stable=True) == {
            ("orders", 0): UNSTABLE,
            ("orders", 1): (4, -1, "", ErrorCode.NONE),
        }
        assert stage.fetch({"orders": [0, 1]}, stable=True, by_id=True) == {
            ("", 0): UNSTABLE,
            ("", 1): (4, -1, "", ErrorCode.NONE),
        }
        assert stage.stored() == {("orders", 0): 3, ("orders", 1): 4}
        assert stage.fetch({"orders": [0]}, group="others", stable=True) == {("orders", 0): NOTHING}

        stage.end()
        assert stage.fetch({"orders": [0], "payments": [0]}, stable=True) == {
            ("orders", 0): (7, -1, "", ErrorCode.NONE),
            ("payments", 0): (9, -1, "", ErrorCode.NONE),
        }

    play(scenario)


def test_an_offset_is_not_stable_while_one_of_two_transactions_is_open() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit_in_transaction({"orders": {0: 7}})
        stage.commit_in_transaction({"orders": {0: 8}}, producer=OTHER)

        stage.end()
        assert stage.fetch({"orders": [0]}, stable=True) == {("orders", 0): UNSTABLE}
        assert stage.stored() == {("orders", 0): 7}
        stage.end(OTHER)
        assert stage.fetch({"orders": [0]}, stable=True) == {("orders", 0): (8, -1, "", ErrorCode.NONE)}

    play(scenario)


def test_what_a_marker_commits_is_seen_once_the_marker_is_committed() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit_in_transaction({"orders": {0: 7}})
        stage.log.commits_at_once = False
        marker = EndedTransaction(PRODUCER, 0, 0, is_commit=True, transaction_version=1)

        ended = stage.groups.end_transaction(0, marker)

        assert ended is not None
        assert not ended.done()
        assert stage.shard.offsets.table.get(GROUP, "orders", 0) is not None
        assert stage.stored() == {}
        stage.log.commit()
        await ended
        assert stage.stored() == {("orders", 0): 7}

    play(scenario)


# -- what is newer


def test_an_offset_that_was_committed_meanwhile_is_kept() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit_in_transaction({"orders": {0: 7, 1: 7}})
        stage.commit({"orders": {0: 5}})

        stage.end()

        assert stage.stored() == {("orders", 0): 5, ("orders", 1): 7}

    play(scenario)


# -- deleting


def test_deleting_an_offset_deletes_what_is_pending() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit({"orders": {0: 3}})
        stage.commit_in_transaction({"orders": {0: 7, 1: 7, 2: 7}})

        stage.delete({"orders": [0, 1]})
        stage.end()

        assert stage.stored() == {("orders", 2): 7}

    play(scenario)


def test_deleting_a_group_deletes_what_is_pending() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit({"orders": {0: 3}})
        stage.commit_in_transaction({"orders": {0: 7, 1: 7}})

        stage.delete_group()
        tombstones = [
            record.key
            for record in kernel.iterate_records(stage.log.batches[0][-1])
            if b"orders" in (record.key or b"")
        ]
        assert len(tombstones) == len(set(tombstones)) == 2
        stage.end()

        assert stage.stored() == {}
        assert GROUP not in stage.shard.context.groups
        await stage.take_over()
        assert stage.stored() == {}

    play(scenario)


def test_a_deleted_topic_takes_what_is_pending_with_it() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit({"orders": {0: 3}})
        stage.commit_in_transaction({"orders": {0: 7, 1: 7}, "payments": {0: 9}})
        stage.commit_in_transaction({"orders": {0: 8}}, producer=OTHER)

        stage.cluster.delete_topic("orders")
        stage.end()
        stage.end(OTHER)

        assert stage.stored() == {("payments", 0): 9}

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_nothing_expires_that_an_open_transaction_is_about_to_replace(is_commit: bool) -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit({"orders": {0: 3, 1: 4}})
        stage.commit_in_transaction({"orders": {0: 7}})

        await asyncio.sleep(130 * 60)
        assert stage.stored() == {("orders", 0): 3}

        stage.end(commit=is_commit)
        await asyncio.sleep(10 * 60)
        assert GROUP not in stage.shard.context.groups

    play(scenario, {"offsets.retention.minutes": "60"})


def test_a_group_with_nothing_but_pending_offsets_is_kept_until_they_are_gone() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit_in_transaction({"orders": {0: 7}})

        await asyncio.sleep(130 * 60)
        assert GROUP in stage.shard.context.groups

        stage.end(commit=False)
        await asyncio.sleep(10 * 60)
        assert GROUP not in stage.shard.context.groups

    play(scenario, {"offsets.retention.minutes": "60"})


# -- another owner


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_open_transaction_goes_on_with_another_owner(is_commit: bool) -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit({"orders": {0: 3}})
        stage.commit_in_transaction({"orders": {0: 7, 1: 8}})

        await stage.take_over()

        assert stage.stored() == {("orders", 0): 3}
        assert stage.fetch({"orders": [0, 1]}, stable=True) == dict.fromkeys(
            [("orders", 0), ("orders", 1)], UNSTABLE
        )
        stage.end(commit=is_commit)
        expected = {("orders", 0): 7, ("orders", 1): 8} if is_commit else {("orders", 0): 3}
        assert stage.stored() == expected
        await stage.take_over()
        assert stage.stored() == expected

    play(scenario)


def test_another_owner_knows_what_is_newer_than_an_open_transaction() -> None:
    async def scenario(stage: CoordinatorStage) -> None:
        stage.commit_in_transaction({"orders": {0: 7, 1: 7}})
        stage.commit({"orders": {0: 5}})

        await stage.take_over()
        stage.end()

        assert stage.stored() == {("orders", 0): 5, ("orders", 1): 7}

    play(scenario)
