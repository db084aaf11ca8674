"""TxnOffsetCommit: checks, the end of the transaction, and fetches before it."""

from __future__ import annotations

import asyncio

import pytest

from harness.offsets import GROUP, ScriptedGroup
from harness.transactional_offsets import (
    PRODUCER,
    CoordinatorHarness,
    errors_of,
    play,
    transactional_request,
)
from penstock.coordinator.group.offsets.transactional_commit import has_known_partitions, refuse
from penstock.coordinator.group.records import TYPES
from penstock.coordinator.serde import RecordSerde
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.records.control import TxnMarkerEntry

NOTHING = (-1, -1, "", ErrorCode.NONE)
UNSTABLE = (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)

OTHER = 8


# -- checks


def test_offsets_take_effect_when_the_transaction_is_committed() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        errors = harness.commit_in_transaction(
            {"orders": {0: 7, 2: 9}, "payments": {0: 1}}, metadata="note", leader_epoch=3
        )
        assert errors == [ErrorCode.NONE] * 3
        assert harness.stored() == {}

        harness.end()

        assert harness.fetch() == {
            ("orders", 0): (7, 3, "note", ErrorCode.NONE),
            ("orders", 2): (9, 3, "note", ErrorCode.NONE),
            ("payments", 0): (1, 3, "note", ErrorCode.NONE),
        }

    play(scenario)


def test_offsets_of_an_aborted_transaction_are_dropped() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({"orders": {0: 3}})
        harness.commit_in_transaction({"orders": {0: 7, 1: 7}})

        harness.end(commit=False)

        assert harness.stored() == {("orders", 0): 3}
        assert harness.fetch(stable=True) == {("orders", 0): (3, -1, "", ErrorCode.NONE)}

    play(scenario)


def test_records_have_kafkas_bytes() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction({"orders": {0: 7}}, epoch=5)

        (batch,) = harness.log.batches[0]
        header = kernel.check_batch(memoryview(batch))
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (PRODUCER, 5, -1)
        assert header.is_transactional
        (record,) = kernel.iterate_records(batch)
        assert record.key is not None
        key, value = RecordSerde(TYPES).decode(record.key, record.value)
        assert (key.group, key.topic, key.partition, value.offset) == (GROUP, "orders", 0, 7)

    play(scenario)


def test_the_group_checks_the_member_of_a_commit() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        group = harness.shard.context.groups[GROUP] = ScriptedGroup()

        harness.commit_in_transaction(
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
    ("refusal", "expected"),
    [
        (ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID),
        (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_an_error_of_the_group_applies_to_all_existing_partitions(
    refusal: ErrorCode, expected: ErrorCode
) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.shard.context.groups[GROUP] = ScriptedGroup(refuses=refusal)

        errors = harness.commit_in_transaction({"orders": {0: 7, 3: 7}, "nowhere": {0: 7}})

        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors == [expected, unknown, unknown]
        assert not harness.log.batches

    play(scenario)


def test_a_partition_that_a_stale_member_does_not_own_fails_the_whole_commit() -> None:
    """KIP-1251, with the error that producers know."""

    async def scenario(harness: CoordinatorHarness) -> None:
        group = harness.shard.context.groups[GROUP] = ScriptedGroup()

        def check(topic_id: Uuid, partition: int) -> None:
            if partition == 2:
                raise Refused(ErrorCode.STALE_MEMBER_EPOCH)

        group.partition_check = check

        assert harness.commit_in_transaction({"orders": {0: 7, 2: 7}}) == [ErrorCode.ILLEGAL_GENERATION] * 2
        assert not harness.log.batches
        assert harness.commit_in_transaction({"orders": {0: 7, 1: 7}}) == [ErrorCode.NONE] * 2

    play(scenario)


def test_a_commit_of_a_member_to_an_unknown_group_has_an_illegal_generation() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        errors = harness.commit_in_transaction({"orders": {0: 7}}, member="m", generation=3)

        assert errors == [ErrorCode.ILLEGAL_GENERATION]
        assert GROUP not in harness.shard.context.groups

    play(scenario)


def test_a_transactional_commit_to_an_unknown_group_creates_a_simple_group() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction({"orders": {0: 7}})

        group = harness.shard.context.groups[GROUP]
        assert (group.state_name(), group.protocol_type) == ("Empty", "")

    play(scenario)


def test_unknown_partitions_and_too_long_metadata_are_refused_one_by_one() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        errors = harness.commit_in_transaction({"orders": {0: 7, 3: 7, -1: 7}, "nowhere": {0: 7}})
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors == [ErrorCode.NONE, unknown, unknown, unknown]

        errors = harness.commit_in_transaction({"orders": {1: 7, 5: 7}}, metadata="12345")
        assert errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE, unknown]

        harness.end()
        assert harness.stored() == {("orders", 0): 7}

    play(scenario, {"offset.metadata.max.bytes": "4"})


def test_a_request_has_known_partitions_if_one_partition_exists() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        image = harness.cluster.metadata.image
        assert has_known_partitions(transactional_request({"nowhere": {0: 1}, "orders": {2: 1}}), image)
        assert not has_known_partitions(transactional_request({"nowhere": {0: 1}, "orders": {3: 1}}), image)
        assert not has_known_partitions(transactional_request({}), image)

    play(scenario)


@pytest.mark.parametrize(
    ("version", "expected"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_old_producers_get_not_available_while_a_coordinator_is_loading(
    version: int, expected: ErrorCode
) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        refused = refuse(
            transactional_request({"orders": {0: 7}}),
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            image=harness.cluster.metadata.image,
            version=version,
        )
        assert errors_of(refused) == [expected]

    play(scenario)


def test_a_commit_that_the_log_refuses_changes_nothing() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.log.refusal = ErrorCode.INVALID_TXN_STATE

        with pytest.raises(Refused) as caught:
            harness.commit_in_transaction({"orders": {0: 7}})

        assert caught.value.error is ErrorCode.INVALID_TXN_STATE
        assert GROUP not in harness.shard.context.groups
        assert not harness.shard.offsets.pending

    play(scenario)


# -- fetching meanwhile


def test_fetches_of_stable_offsets_return_unstable_offset_commit() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({"orders": {0: 3, 1: 4}})
        harness.commit_in_transaction({"orders": {0: 7}, "payments": {0: 9}})

        everything = {"orders": [0, 1, 2], "payments": [0]}
        assert harness.fetch(everything, stable=True) == {
            ("orders", 0): UNSTABLE,
            ("orders", 1): (4, -1, "", ErrorCode.NONE),
            ("orders", 2): NOTHING,
            ("payments", 0): UNSTABLE,
        }
        assert harness.fetch(stable=True) == {
            ("orders", 0): UNSTABLE,
            ("orders", 1): (4, -1, "", ErrorCode.NONE),
        }
        assert harness.fetch({"orders": [0, 1]}, stable=True, by_id=True) == {
            ("", 0): UNSTABLE,
            ("", 1): (4, -1, "", ErrorCode.NONE),
        }
        assert harness.stored() == {("orders", 0): 3, ("orders", 1): 4}
        assert harness.fetch({"orders": [0]}, group="others", stable=True) == {("orders", 0): NOTHING}

        harness.end()
        assert harness.fetch({"orders": [0], "payments": [0]}, stable=True) == {
            ("orders", 0): (7, -1, "", ErrorCode.NONE),
            ("payments", 0): (9, -1, "", ErrorCode.NONE),
        }

    play(scenario)


def test_an_offset_is_not_stable_while_one_of_two_transactions_is_open() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction({"orders": {0: 7}})
        harness.commit_in_transaction({"orders": {0: 8}}, producer=OTHER)

        harness.end()
        assert harness.fetch({"orders": [0]}, stable=True) == {("orders", 0): UNSTABLE}
        assert harness.stored() == {("orders", 0): 7}
        harness.end(OTHER)
        assert harness.fetch({"orders": [0]}, stable=True) == {("orders", 0): (8, -1, "", ErrorCode.NONE)}

    play(scenario)


def test_offsets_are_visible_when_the_marker_is_committed() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction({"orders": {0: 7}})
        harness.log.commits_at_once = False
        marker = TxnMarkerEntry(PRODUCER, 0, 0, is_commit=True, transaction_version=1)

        ended = harness.groups.end_transaction(0, marker)

        assert ended is not None
        assert not ended.done()
        assert harness.shard.offsets.table.get(GROUP, "orders", 0) is not None
        assert harness.stored() == {}
        harness.log.commit()
        await ended
        assert harness.stored() == {("orders", 0): 7}

    play(scenario)


# -- order of records


def test_an_offset_that_was_committed_meanwhile_is_kept() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction({"orders": {0: 7, 1: 7}})
        harness.commit({"orders": {0: 5}})

        harness.end()

        assert harness.stored() == {("orders", 0): 5, ("orders", 1): 7}

    play(scenario)


# -- deleting


def test_deleting_an_offset_deletes_the_pending_offsets() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({"orders": {0: 3}})
        harness.commit_in_transaction({"orders": {0: 7, 1: 7, 2: 7}})

        harness.delete({"orders": [0, 1]})
        harness.end()

        assert harness.stored() == {("orders", 2): 7}

    play(scenario)


def test_deleting_a_group_deletes_its_pending_offsets() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({"orders": {0: 3}})
        harness.commit_in_transaction({"orders": {0: 7, 1: 7}})

        harness.delete_group()
        tombstones = [
            record.key
            for record in kernel.iterate_records(harness.log.batches[0][-1])
            if b"orders" in (record.key or b"")
        ]
        assert len(tombstones) == len(set(tombstones)) == 2
        harness.end()

        assert harness.stored() == {}
        assert GROUP not in harness.shard.context.groups
        await harness.take_over()
        assert harness.stored() == {}

    play(scenario)


def test_deleting_a_topic_removes_its_pending_offsets() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({"orders": {0: 3}})
        harness.commit_in_transaction({"orders": {0: 7, 1: 7}, "payments": {0: 9}})
        harness.commit_in_transaction({"orders": {0: 8}}, producer=OTHER)

        harness.cluster.delete_topic("orders")
        harness.end()
        harness.end(OTHER)

        assert harness.stored() == {("payments", 0): 9}

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_with_a_pending_transactional_offset_do_not_expire(is_commit: bool) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({"orders": {0: 3, 1: 4}})
        harness.commit_in_transaction({"orders": {0: 7}})

        await asyncio.sleep(130 * 60)
        assert harness.stored() == {("orders", 0): 3}

        harness.end(commit=is_commit)
        await asyncio.sleep(10 * 60)
        assert GROUP not in harness.shard.context.groups

    play(scenario, {"offsets.retention.minutes": "60"})


def test_a_group_with_only_pending_offsets_is_kept_until_the_transaction_ends() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction({"orders": {0: 7}})

        await asyncio.sleep(130 * 60)
        assert GROUP in harness.shard.context.groups

        harness.end(commit=False)
        await asyncio.sleep(10 * 60)
        assert GROUP not in harness.shard.context.groups

    play(scenario, {"offsets.retention.minutes": "60"})


# -- loading


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_open_transaction_continues_with_a_new_coordinator(is_commit: bool) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({"orders": {0: 3}})
        harness.commit_in_transaction({"orders": {0: 7, 1: 8}})

        await harness.take_over()

        assert harness.stored() == {("orders", 0): 3}
        assert harness.fetch({"orders": [0, 1]}, stable=True) == dict.fromkeys(
            [("orders", 0), ("orders", 1)], UNSTABLE
        )
        harness.end(commit=is_commit)
        expected = {("orders", 0): 7, ("orders", 1): 8} if is_commit else {("orders", 0): 3}
        assert harness.stored() == expected
        await harness.take_over()
        assert harness.stored() == expected

    play(scenario)


def test_a_new_coordinator_knows_which_records_are_newer_than_an_open_transaction() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction({"orders": {0: 7, 1: 7}})
        harness.commit({"orders": {0: 5}})

        await harness.take_over()
        harness.end()

        assert harness.stored() == {("orders", 0): 5, ("orders", 1): 7}

    play(scenario)
