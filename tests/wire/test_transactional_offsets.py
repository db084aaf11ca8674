"""Transactional offset commits on the wire: in every version, with valid and invalid input.

Also run against Apache Kafka (`--broker=kafka`), except marked tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.group_requests import EpochMember, JoinedMember, await_coordinator, join_newer
from harness.offset_requests import (
    NOTHING,
    commit,
    delete_groups,
    delete_offsets,
    describe,
    fetch,
    topic_id_of,
)
from harness.requests import ask, create_topic
from harness.transactions import (
    TransactionalProducer,
    add_offsets,
    marker,
    partition_of,
    settled,
    write_markers,
)
from harness.transactions import (
    describe as describe_transaction,
)
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

OFFSETS_TOPIC = "__consumer_offsets"
VERSIONS = range(6)
MEMBER_VERSION = 3
ADDING_VERSION = 5

NONE = ErrorCode.NONE
UNSTABLE = (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.fixture
def connection(group_connection: WireConnection) -> WireConnection:
    return group_connection


@pytest.fixture
def topic(topic_read: str) -> str:
    return topic_read


@pytest.fixture
def producer(connection: WireConnection) -> TransactionalProducer:
    """With epoch 1, so that there is an older one."""
    producer = TransactionalProducer.started(connection, new_name("transformer"))
    producer.init()
    return producer


@pytest.fixture
def other(connection: WireConnection) -> TransactionalProducer:
    return TransactionalProducer.started(connection, new_name("transformer"))


def ask_to_commit(
    connection: WireConnection,
    producer: TransactionalProducer,
    group: str,
    offsets: Mapping[str, Mapping[int, int]],
    *,
    version: int = 5,
    metadata: str | None = "",
    leader_epoch: int = -1,
    **fields: Any,
) -> dict[tuple[str, int], ErrorCode]:
    request = TxnOffsetCommitRequest(
        **{
            "transactional_id": producer.transactional_id,
            "group_id": group,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            **fields,
        },
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=leader_epoch,
                        committed_metadata=metadata,
                    )
                    for index, offset in partitions.items()
                ],
            )
            for topic, partitions in offsets.items()
        ],
    )
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in ask(connection, request, version).topics
        for partition in topic.partitions
    }


def commit_in(
    producer: TransactionalProducer, group: str, topic: str, offsets: Mapping[int, int], **options: Any
) -> set[ErrorCode]:
    """The errors of a commit of one topic; where a transaction is still ending it is tried again."""
    connection = producer.connection
    if options.get("version", 5) < ADDING_VERSION:
        assert add(producer, group) is NONE
    answered = settled(
        lambda: ask_to_commit(connection, producer, group, {topic: offsets}, **options),
        f"offsets of {group} are taken or refused",
    )
    return set(answered.values())


def add(producer: TransactionalProducer, group: str) -> ErrorCode:
    """As producers do before v5."""
    error: ErrorCode = settled(
        lambda: add_offsets(producer.connection, producer.transactional_id, *producer.identity, group),
        f"{group} is added or refused",
    )
    return error


def stored(connection: WireConnection, group: str, topic: str, *partitions: int) -> list[int]:
    fetched = fetch(connection, group, {topic: list(partitions)})
    assert isinstance(fetched, dict)
    return [fetched[topic, index][0] for index in partitions]


# -- commit and abort


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_committed_with_the_transaction_in_any_version(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str, version: int
) -> None:
    epoch = 0 if version >= 2 else -1

    errors = commit_in(
        producer, group, topic, {0: 7, 2: 9}, version=version, metadata="note", leader_epoch=epoch
    )

    assert errors == {NONE}
    assert stored(connection, group, topic, 0, 2) == [-1, -1]
    producer.commit()
    assert fetch(connection, group, {topic: [0, 1, 2]}, require_stable=True) == {
        (topic, 0): (7, epoch, "note", NONE),
        (topic, 1): NOTHING,
        (topic, 2): (9, epoch, "note", NONE),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_go_with_the_transaction_in_any_version(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str, version: int
) -> None:
    commit(connection, group, {topic: {0: 3}})

    assert commit_in(producer, group, topic, {0: 7, 1: 7}, version=version) == {NONE}
    producer.abort()

    assert fetch(connection, group, {topic: [0, 1]}, require_stable=True) == {
        (topic, 0): (3, -1, "", NONE),
        (topic, 1): NOTHING,
    }


def test_a_transaction_contains_offsets_of_several_groups_and_records(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    groups = [new_name("readers") for _ in range(3)]
    for number, group in enumerate(groups):
        await_coordinator(connection, group)
        assert commit_in(producer, group, topic, {0: number}) == {NONE}
    producer.send(topic, b"made of it")

    producer.commit()

    assert [stored(connection, group, topic, 0) for group in groups] == [[0], [1], [2]]


def test_the_last_of_several_commits_counts(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    for offset in (5, 9, 7):
        assert commit_in(producer, group, topic, {0: offset}) == {NONE}

    producer.commit()

    assert stored(connection, group, topic, 0) == [7]


def test_one_transaction_follows_the_other(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    for offset in range(1, 6):
        assert commit_in(producer, group, topic, {0: offset}) == {NONE}
        if offset % 2:
            producer.commit()
        else:
            producer.abort()
        assert stored(connection, group, topic, 0) == [offset if offset % 2 else offset - 1]


# -- belonging to the transaction


def test_the_newest_version_adds_the_partition_of_the_group(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    assert commit_in(producer, group, topic, {0: 7}) == {NONE}

    state = describe_transaction(connection, producer.transactional_id)
    assert state.transaction_state == "Ongoing"
    assert [(each.topic, list(each.partitions)) for each in state.topics] == [
        (OFFSETS_TOPIC, [partition_of(group)])
    ]
    producer.abort()


@pytest.mark.parametrize("version", range(5))
def test_older_versions_must_have_added_the_group(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str, version: int
) -> None:
    producer.send(topic, b"a transaction, but not of this group")

    errors = ask_to_commit(connection, producer, group, {topic: {0: 7}}, version=version)

    fetched = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
    assert errors == {(topic, 0): fetched}
    producer.commit()
    assert stored(connection, group, topic, 0) == [-1]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_older_epoch_of_the_producer_may_not_commit(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str, version: int
) -> None:
    commit_in(producer, group, topic, {0: 5})

    errors = ask_to_commit(connection, producer, group, {topic: {0: 7}}, version=version, producer_epoch=0)

    assert errors == {(topic, 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    producer.commit()
    assert stored(connection, group, topic, 0) == [5]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_that_was_replaced_may_not_commit(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str, version: int
) -> None:
    before = producer.producer_epoch
    producer.init()

    errors = ask_to_commit(
        connection, producer, group, {topic: {0: 7}}, version=version, producer_epoch=before
    )

    assert errors == {(topic, 0): ErrorCode.INVALID_PRODUCER_EPOCH}


def test_an_unknown_producer_cannot_commit(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    def ask_as(**fields: Any) -> ErrorCode:
        answered = ask_to_commit(connection, producer, group, {topic: {0: 7}}, **fields)
        return answered[topic, 0]

    assert ask_as(producer_id=producer.producer_id + 10_000) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert ask_as(transactional_id=new_name("nobody")) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert ask_as(transactional_id="") is ErrorCode.INVALID_REQUEST


def test_a_fenced_transaction_leaves_no_offsets(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    """A second instance of the producer aborts the transaction of the first."""
    assert commit_in(producer, group, topic, {0: 7}) == {NONE}
    producer.init()

    assert fetch(connection, group, {topic: [0]}, require_stable=True) == {(topic, 0): NOTHING}


# -- stable offsets


@pytest.mark.parametrize("version", range(7, 11))
def test_a_fetch_of_stable_offsets_returns_an_error_for_unstable_ones(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str, version: int
) -> None:
    commit(connection, group, {topic: {0: 3, 1: 4}})
    commit_in(producer, group, topic, {0: 7, 2: 9})
    name = topic_id_of(connection, topic) if version >= 10 else topic

    def ask_for(partitions: list[int] | None) -> Any:
        wanted = None if partitions is None else {name: partitions}
        return fetch(connection, group, wanted, version=version, require_stable=True)

    assert ask_for([0, 1, 2]) == {(name, 0): UNSTABLE, (name, 1): (4, -1, "", NONE), (name, 2): UNSTABLE}
    assert ask_for(None) == {(name, 0): UNSTABLE, (name, 1): (4, -1, "", NONE)}
    assert stored(connection, group, topic, 0, 1, 2) == [3, 4, -1]

    producer.commit()
    assert ask_for([0, 2]) == {(name, 0): (7, -1, "", NONE), (name, 2): (9, -1, "", NONE)}


def test_offsets_of_other_groups_are_stable(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    commit_in(producer, group, topic, {0: 7})
    others = new_name("readers")
    await_coordinator(connection, others)
    commit(connection, others, {topic: {0: 3}})

    assert fetch(connection, others, {topic: [0]}, require_stable=True) == {(topic, 0): (3, -1, "", NONE)}
    producer.abort()


# -- order of commits


def test_an_offset_that_was_committed_in_between_is_kept(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    commit_in(producer, group, topic, {0: 7, 1: 7})
    commit(connection, group, {topic: {0: 5}})
    assert fetch(connection, group, {topic: [0]}, require_stable=True) == {(topic, 0): UNSTABLE}

    producer.commit()

    assert stored(connection, group, topic, 0, 1) == [5, 7]


def test_of_two_transactions_the_later_commit_counts_whichever_ends_first(
    connection: WireConnection,
    producer: TransactionalProducer,
    other: TransactionalProducer,
    group: str,
    topic: str,
) -> None:
    commit_in(producer, group, topic, {0: 1, 1: 1})
    commit_in(other, group, topic, {0: 2})
    commit_in(producer, group, topic, {1: 3})

    other.commit()
    assert stored(connection, group, topic, 0, 1) == [2, -1]
    assert fetch(connection, group, {topic: [0]}, require_stable=True) == {(topic, 0): UNSTABLE}
    producer.commit()

    assert stored(connection, group, topic, 0, 1) == [2, 3]


# -- bad input


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_that_do_not_exist_are_refused_one_by_one(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str, version: int
) -> None:
    add(producer, group)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    errors = ask_to_commit(
        connection, producer, group, {topic: {0: 7, 3: 7, -1: 7}, "nowhere": {0: 7}}, version=version
    )

    assert errors == {(topic, 0): NONE, (topic, 3): unknown, (topic, -1): unknown, ("nowhere", 0): unknown}
    producer.commit()
    assert stored(connection, group, topic, 0) == [7]


def test_a_transaction_without_known_partitions_is_not_begun(
    connection: WireConnection, producer: TransactionalProducer, group: str
) -> None:
    errors = ask_to_commit(connection, producer, group, {"nowhere": {0: 7}})

    assert errors == {("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert ask_to_commit(connection, producer, group, {}) == {}
    assert describe_transaction(connection, producer.transactional_id).transaction_state == "Empty"


def test_metadata_that_is_too_long_is_refused(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    assert commit_in(producer, group, topic, {0: 7}, metadata="x" * 4096) == {NONE}
    assert commit_in(producer, group, topic, {1: 7}, metadata="x" * 4097) == {
        ErrorCode.OFFSET_METADATA_TOO_LARGE
    }
    assert commit_in(producer, group, topic, {2: 7}, metadata=None) == {NONE}

    producer.commit()

    assert stored(connection, group, topic, 0, 1, 2) == [7, -1, 7]


def test_a_group_must_have_a_name(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    errors = ask_to_commit(connection, producer, "", {topic: {0: 7}})

    assert errors == {(topic, 0): ErrorCode.INVALID_GROUP_ID}


# -- members


def test_a_member_that_is_not_of_the_group_may_not_commit(
    connection: WireConnection, producer: TransactionalProducer, member: JoinedMember, group: str, topic: str
) -> None:
    def ask_as(member_id: str, generation: int, **fields: Any) -> set[ErrorCode]:
        return commit_in(
            producer, group, topic, {0: 7}, member_id=member_id, generation_id=generation, **fields
        )

    assert ask_as("somebody", member.generation) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert ask_as(member.member_id, member.generation + 1) == {ErrorCode.ILLEGAL_GENERATION}
    assert ask_as(member.member_id, member.generation - 1) == {ErrorCode.ILLEGAL_GENERATION}
    assert ask_as(member.member_id, -1) == {ErrorCode.ILLEGAL_GENERATION}
    assert ask_as("", member.generation) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert ask_as(member.member_id, member.generation, group_instance_id="statue") == {
        ErrorCode.UNKNOWN_MEMBER_ID
    }
    assert ask_as(member.member_id, member.generation) == {NONE}
    producer.commit()
    assert stored(connection, group, topic, 0) == [7]


def test_a_static_member_that_was_replaced_may_not_commit(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        group_instance_id="statue",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = ask(connection, request, 5)
    assert joined.error_code is NONE

    def ask_as(member_id: str) -> set[ErrorCode]:
        fields = {"member_id": member_id, "group_instance_id": "statue"}
        return commit_in(producer, group, topic, {0: 7}, generation_id=joined.generation_id, **fields)

    assert ask_as("the one before") == {ErrorCode.FENCED_INSTANCE_ID}
    assert ask_as(joined.member_id) == {NONE}  # although it has no assignment yet
    producer.abort()
    leaving = LeaveGroupRequest(
        group_id=group,
        members=[MemberIdentity(member_id=joined.member_id, group_instance_id="statue")],
    )
    assert ask(connection, leaving, 3).error_code is NONE


@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_need_not_say_for_which_member_it_commits(
    connection: WireConnection,
    producer: TransactionalProducer,
    member: JoinedMember,
    group: str,
    topic: str,
    version: int,
) -> None:
    """Before v3 there is no member id: the transactional id identifies the partitions that it reads."""
    assert commit_in(producer, group, topic, {0: 7}, version=version) == {NONE}
    producer.commit()

    assert stored(connection, group, topic, 0) == [7]


@pytest.mark.parametrize("version", range(MEMBER_VERSION, 6))
def test_a_member_of_a_group_that_is_not_there_may_not_commit(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str, version: int
) -> None:
    errors = commit_in(producer, group, topic, {0: 7}, version=version, member_id="somebody", generation_id=1)

    assert errors == {ErrorCode.ILLEGAL_GENERATION}
    producer.abort()


@pytest.fixture
def newer_member(connection: WireConnection, group: str, topic: str) -> Iterator[EpochMember]:
    member = join_newer(connection, group, topic)
    yield member
    member.leave(connection)


def test_members_of_newer_groups_commit_with_their_epoch(
    connection: WireConnection,
    producer: TransactionalProducer,
    newer_member: EpochMember,
    group: str,
    topic: str,
) -> None:
    def ask_as(member_id: str, epoch: int) -> set[ErrorCode]:
        return commit_in(producer, group, topic, {0: 7}, member_id=member_id, generation_id=epoch)

    assert ask_as("somebody", newer_member.epoch) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert ask_as(newer_member.member_id, newer_member.epoch + 1) == {ErrorCode.ILLEGAL_GENERATION}
    assert ask_as(newer_member.member_id, newer_member.epoch - 1) == {ErrorCode.ILLEGAL_GENERATION}
    assert ask_as(newer_member.member_id, newer_member.epoch) == {NONE}
    assert commit_in(producer, group, topic, {1: 8}) == {NONE}
    producer.commit()
    assert stored(connection, group, topic, 0, 1) == [7, 8]


# -- deleting


def test_deleting_an_offset_deletes_its_pending_commits(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    commit(connection, group, {topic: {0: 3}})
    commit_in(producer, group, topic, {0: 7, 1: 7, 2: 7})

    assert delete_offsets(connection, group, {topic: [0, 1]}) == [NONE, NONE]
    assert fetch(connection, group, {topic: [0, 1, 2]}, require_stable=True) == {
        (topic, 0): NOTHING,
        (topic, 1): NOTHING,
        (topic, 2): UNSTABLE,
    }
    producer.commit()

    assert stored(connection, group, topic, 0, 1, 2) == [-1, -1, 7]


def test_deleting_a_group_deletes_its_pending_commits(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    commit_in(producer, group, topic, {0: 7})
    assert describe(connection, group).group_state == "Empty"

    assert delete_groups(connection, group) == {group: NONE}
    producer.commit()

    assert stored(connection, group, topic, 0) == [-1]
    assert describe(connection, group).error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_deleting_a_topic_deletes_its_pending_commits(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    commit_in(producer, group, topic, {0: 7})
    ask(connection, DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 3)
    wait_until(
        lambda: fetch(connection, group, {topic: [0]}, require_stable=True) == {(topic, 0): NOTHING},
        "nothing is pending",
    )

    create_topic(connection, topic, partitions=3)
    producer.commit()

    assert stored(connection, group, topic, 0) == [-1]


# -- markers and records


def test_a_marker_by_hand_ends_a_transaction_of_offsets(
    connection: WireConnection, producer: TransactionalProducer, group: str, topic: str
) -> None:
    """As an operator ends one that hangs."""
    commit_in(producer, group, topic, {0: 7})
    where = {OFFSETS_TOPIC: [partition_of(group)]}

    old = marker(producer.producer_id, producer.producer_epoch - 1, where, committed=False)
    assert set(write_markers(connection, old)[producer.producer_id].values()) == {
        ErrorCode.INVALID_PRODUCER_EPOCH
    }
    assert fetch(connection, group, {topic: [0]}, require_stable=True) == {(topic, 0): UNSTABLE}

    mine = marker(*producer.identity, where, committed=False)
    assert set(write_markers(connection, mine)[producer.producer_id].values()) == {NONE}
    assert fetch(connection, group, {topic: [0]}, require_stable=True) == {(topic, 0): NOTHING}


def test_an_open_transaction_and_its_order_outlive_the_broker(broker: Broker) -> None:
    group, topic = "readers", "read"
    with WireConnection(broker.port) as connection:
        create_topic(connection, topic, partitions=3)
        await_coordinator(connection, group)
        producer = TransactionalProducer.started(connection, "transformer")
        aborting = TransactionalProducer.started(connection, "aborter")
        commit(connection, group, {topic: {0: 1, 1: 1, 2: 1}})
        commit_in(producer, group, topic, {0: 7, 1: 7})
        commit_in(aborting, group, topic, {2: 9})
        commit(connection, group, {topic: {1: 5}})
    for stop in (broker.kill, broker.stop):
        stop()
        broker.start()
        with WireConnection(broker.port) as connection:
            await_coordinator(connection, group)
            assert stored(connection, group, topic, 0, 1, 2) == [1, 5, 1]
            assert fetch(connection, group, {topic: [0, 1, 2]}, require_stable=True) == dict.fromkeys(
                [(topic, 0), (topic, 1), (topic, 2)], UNSTABLE
            )
    with WireConnection(broker.port) as connection:
        for ending in (producer, aborting):
            ending.connection = connection
        settled(lambda: describe_transaction(connection, "transformer"), "transactions are served")
        producer.commit()
        aborting.abort()
        assert stored(connection, group, topic, 0, 1, 2) == [7, 5, 1]
