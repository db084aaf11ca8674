"""Offsets on the wire: commit, fetch and delete, in every version, with valid and invalid input.

Also run against Apache Kafka (`--broker=kafka`), except marked tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.group_requests import EpochMember, JoinedMember, await_coordinator, join, join_newer
from harness.offset_requests import (
    BY_ID_VERSION,
    NOTHING,
    commit,
    delete_groups,
    delete_offsets,
    describe,
    fetch,
    listed,
    topic_id_of,
)
from harness.requests import ask, ask_all, create_topic, request_payload
from harness.waiting import wait_until
from harness.wire import WireConnection, frame
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from penstock.protocol.types import Uuid

old_version = pytest.mark.penstock_only("Kafka 4.0 dropped it")
COMMIT_VERSIONS = [pytest.param(0, marks=old_version), pytest.param(1, marks=old_version), *range(2, 11)]
FETCH_VERSIONS = [pytest.param(0, marks=old_version), *range(1, 11)]

NOWHERE = Uuid(b"no such topic id")


@pytest.fixture
def connection(group_connection: WireConnection) -> WireConnection:
    return group_connection


@pytest.fixture
def topic(topic_read: str) -> str:
    return topic_read


# -- commits and questions


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_simple_consumer_commits_in_any_version(
    connection: WireConnection, group: str, topic: str, version: int
) -> None:
    name = topic if version < BY_ID_VERSION else topic_id_of(connection, topic)
    epoch = 0 if version >= 6 else -1

    errors = commit(
        connection, group, {name: {0: 7, 2: 9}}, version=version, metadata="note", leader_epoch=epoch
    )

    assert errors == [ErrorCode.NONE] * 2
    assert fetch(connection, group, {topic: [0, 1, 2]}) == {
        (topic, 0): (7, epoch, "note", ErrorCode.NONE),
        (topic, 1): NOTHING,
        (topic, 2): (9, epoch, "note", ErrorCode.NONE),
    }


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_offsets_are_returned_in_any_version(
    connection: WireConnection, group: str, topic: str, version: int
) -> None:
    name = topic if version < BY_ID_VERSION else topic_id_of(connection, topic)
    commit(connection, group, {topic: {0: 7}}, metadata="note", leader_epoch=3)
    epoch = 3 if version >= 5 else -1
    seven, nothing = (7, epoch, "note", ErrorCode.NONE), NOTHING

    assert fetch(connection, group, {name: [0, 1]}, version=version) == {
        (name, 0): seven,
        (name, 1): nothing,
    }
    if version >= 2:
        assert fetch(connection, group, None, version=version) == {(name, 0): seven}
    if version >= 7:
        stable = fetch(connection, group, {name: [0]}, version=version, require_stable=True)
        assert stable == {(name, 0): seven}
        stable = fetch(connection, group, None, version=version, require_stable=True)
        assert stable == {(name, 0): seven}


def test_several_groups_are_asked_for_at_once(connection: WireConnection, group: str, topic: str) -> None:
    other = new_name("readers")
    commit(connection, group, {topic: {0: 7}})
    commit(connection, other, {topic: {1: 8}})
    asked = [
        OffsetFetchRequestGroup(group_id=group, topics=None),
        OffsetFetchRequestGroup(
            group_id=other, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[1])]
        ),
        OffsetFetchRequestGroup(group_id="nobody", topics=None),
    ]

    answered = ask(connection, OffsetFetchRequest(groups=asked), 8).groups

    assert [
        (
            each.group_id,
            each.error_code,
            [partition.committed_offset for topic in each.topics for partition in topic.partitions],
        )
        for each in answered
    ] == [
        (group, ErrorCode.NONE, [7]),
        (other, ErrorCode.NONE, [8]),
        ("nobody", ErrorCode.NONE, []),
    ]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_group_that_is_not_there_has_no_offsets(
    connection: WireConnection, group: str, topic: str, version: int
) -> None:
    name = topic if version < BY_ID_VERSION else topic_id_of(connection, topic)

    assert fetch(connection, group, {name: [0]}, version=version) == {(name, 0): NOTHING}
    if version >= 2:
        assert fetch(connection, group, None, version=version) == {}
    if version >= 9:
        assert fetch(connection, group, {name: [0]}, version=version, member=("m", 3)) == {(name, 0): NOTHING}
    assert listed(connection, group) == []


def test_partitions_that_do_not_exist_are_asked_for_in_vain(
    connection: WireConnection, group: str, topic: str
) -> None:
    commit(connection, group, {topic: {0: 7}})

    assert fetch(connection, group, {topic: [99, -1], "nowhere": [0]}) == {
        (topic, 99): NOTHING,
        (topic, -1): NOTHING,
        ("nowhere", 0): NOTHING,
    }
    assert fetch(connection, group, {NOWHERE: [0]}, version=10) == {
        (NOWHERE, 0): (-1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID)
    }


def test_pipelined_commits_get_responses_in_order(connection: WireConnection, group: str, topic: str) -> None:
    """Of two groups, with a question between them, in one packet."""
    commits = [commit_to(group, topic, offset) for offset in range(3)]
    question = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    requests = [*commits, commit_to(f"{group}-other", topic, 7), question, commit_to(group, topic, 3)]

    responses = ask_all(connection, requests, 9)

    assert [type(response) for response in responses] == [
        *[OffsetCommitResponse] * 4,
        OffsetFetchResponse,
        OffsetCommitResponse,
    ]
    assert responses[4].groups[0].topics[0].partitions[0].committed_offset == 2
    assert fetch(connection, group, None) == {(topic, 0): (3, -1, "", ErrorCode.NONE)}
    assert fetch(connection, f"{group}-other", None) == {(topic, 0): (7, -1, "", ErrorCode.NONE)}


def test_a_commit_before_a_malformed_one_gets_a_response(broker: Broker, group: str, topic: str) -> None:
    good = request_payload(commit_to(group, topic, 7), 9, correlation_id=1)
    broken = request_payload(commit_to(group, topic, 8), 9, correlation_id=2)[:-20]

    with WireConnection(broker.port) as connection:
        connection.socket.sendall(frame(good) + frame(broken))

        assert connection.receive()[0] == 1
        assert connection.is_closed_by_peer()


def commit_to(group: str, topic: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_commits_for_unknown_partitions_are_refused(
    connection: WireConnection, group: str, topic: str, version: int
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    offsets: dict[str | Uuid, dict[int, int]] = {topic: {0: 7, 3: 7, -1: 7}, "nowhere": {0: 7}}
    expected = [ErrorCode.NONE, unknown, unknown, unknown]
    if version >= BY_ID_VERSION:
        offsets = {topic_id_of(connection, topic): offsets[topic], NOWHERE: {0: 7}}
        expected[-1] = ErrorCode.UNKNOWN_TOPIC_ID

    assert commit(connection, group, offsets, version=version) == expected
    assert fetch(connection, group, None) == {(topic, 0): (7, -1, "", ErrorCode.NONE)}


def test_a_commit_for_unknown_partitions_creates_no_group(connection: WireConnection, group: str) -> None:
    assert commit(connection, group, {"nowhere": {0: 7}}) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert commit(connection, group, {}) == []
    assert listed(connection, group) == []


def test_a_note_that_is_too_long_is_refused_for_its_partition(
    connection: WireConnection, group: str, topic: str
) -> None:
    assert commit(connection, group, {topic: {0: 7}}, metadata="x" * 4096) == [ErrorCode.NONE]
    assert commit(connection, group, {topic: {0: 8}}, metadata="ä" * 4096) == [ErrorCode.NONE]
    for note in ("x" * 4097, "\N{GRINNING FACE}" * 2049):
        assert commit(connection, group, {topic: {0: 9}}, metadata=note) == [
            ErrorCode.OFFSET_METADATA_TOO_LARGE
        ]
    assert fetch(connection, group, {topic: [0]}) == {(topic, 0): (8, -1, "ä" * 4096, ErrorCode.NONE)}


def test_no_note_is_an_empty_one(connection: WireConnection, group: str, topic: str) -> None:
    assert commit(connection, group, {topic: {0: 7}}, metadata=None) == [ErrorCode.NONE]
    assert fetch(connection, group, {topic: [0]}) == {(topic, 0): (7, -1, "", ErrorCode.NONE)}


def test_offsets_may_be_anything(connection: WireConnection, group: str, topic: str) -> None:
    """The coordinator does not compare them with the log, and accepts even negative offsets."""
    assert commit(connection, group, {topic: {0: 2**63 - 1, 1: -1, 2: -(2**63)}}) == [ErrorCode.NONE] * 3
    answered = fetch(connection, group, {topic: [0, 1, 2]})
    assert isinstance(answered, dict)
    assert [each[0] for each in answered.values()] == [2**63 - 1, -1, -(2**63)]


def test_a_group_without_a_name_can_have_offsets(connection: WireConnection, group: str, topic: str) -> None:
    """For clients of long ago."""
    assert commit(connection, "", {topic: {0: 7}}) == [ErrorCode.NONE]
    assert fetch(connection, "", {topic: [0]}) == {(topic, 0): (7, -1, "", ErrorCode.NONE)}
    assert describe(connection, "").group_state == "Empty"
    assert delete_groups(connection, "") == {"": ErrorCode.NONE}


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_no_group_is_refused(
    connection: WireConnection, group: str, topic: str, version: int, error: ErrorCode
) -> None:
    offsets: dict[str | Uuid, dict[int, int]] = {topic: {0: 7, 9: 7}}

    errors = commit(
        connection, group, offsets, version=version, member_id="m", generation_id_or_member_epoch=1
    )

    assert errors == [error, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_retention_time_is_taken_in_versions_2_to_4(
    connection: WireConnection, group: str, topic: str
) -> None:
    for version in (2, 3, 4):
        errors = commit(
            connection, group, {topic: {0: version}}, version=version, retention_time_ms=86_400_000
        )
        assert errors == [ErrorCode.NONE]
        assert fetch(connection, group, {topic: [0]}) == {(topic, 0): (version, -1, "", ErrorCode.NONE)}


# -- groups with members


def test_a_commit_must_come_from_a_member_of_this_generation(
    connection: WireConnection, topic: str, member: JoinedMember
) -> None:
    group, me, now = member.group, member.member_id, member.generation

    def attempt(member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        (error,) = commit(
            connection,
            group,
            {topic: {0: 7}},
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            group_instance_id=instance_id,
        )
        return error

    assert attempt(me, now) is ErrorCode.NONE
    assert attempt(me, now + 1) is ErrorCode.ILLEGAL_GENERATION
    assert attempt(me, now - 1) is ErrorCode.ILLEGAL_GENERATION
    assert attempt(me, -1) is ErrorCode.ILLEGAL_GENERATION
    assert attempt("someone else", now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert attempt("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert attempt("", now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert attempt(me, now, "no instance") is ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(connection, group, {topic: [0]}, member=("someone else", 99)) == {
        (topic, 0): (7, -1, "", ErrorCode.NONE)
    }, "classic groups do not ask who asks"


def test_an_empty_group_accepts_commits_without_a_generation(
    connection: WireConnection, group: str, topic: str
) -> None:
    member = join(connection, group, topic)
    member.leave(connection)

    assert commit(connection, group, {topic: {0: 7}}) == [ErrorCode.NONE]
    assert commit(connection, group, {topic: {0: 8}}, member_id="anybody") == [ErrorCode.NONE]
    assert commit(
        connection,
        group,
        {topic: {0: 9}},
        member_id=member.member_id,
        generation_id_or_member_epoch=member.generation,
    ) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert fetch(connection, group, {topic: [0]}) == {(topic, 0): (8, -1, "", ErrorCode.NONE)}


def test_offsets_of_subscribed_topics_are_not_deleted(
    connection: WireConnection, topic: str, member: JoinedMember
) -> None:
    other = new_name("committed")
    create_topic(connection, other)
    commit(
        connection,
        member.group,
        {topic: {0: 7}, other: {0: 1}},
        member_id=member.member_id,
        generation_id_or_member_epoch=member.generation,
    )

    assert delete_offsets(connection, member.group, {topic: [0, 1, 9], other: [0], "nowhere": [0]}) == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert fetch(connection, member.group, None) == {(topic, 0): (7, -1, "", ErrorCode.NONE)}


def test_offsets_of_members_that_are_no_consumers_are_not_deleted(
    connection: WireConnection, group: str, topic: str
) -> None:
    worker = join(connection, group, topic, protocol_type="connect")

    assert delete_offsets(connection, group, {topic: [0]}) is ErrorCode.NON_EMPTY_GROUP
    worker.leave(connection)
    assert delete_offsets(connection, group, {topic: [0]}) == [ErrorCode.NONE]


def test_offsets_of_an_empty_group_are_deleted(connection: WireConnection, group: str, topic: str) -> None:
    commit(connection, group, {topic: {0: 7, 1: 8}})

    assert delete_offsets(connection, group, {topic: [0, 2]}) == [ErrorCode.NONE, ErrorCode.NONE]
    assert fetch(connection, group, None) == {(topic, 1): (8, -1, "", ErrorCode.NONE)}
    assert delete_offsets(connection, group, {topic: [1]}) == [ErrorCode.NONE]
    assert listed(connection, group) == [group], "a group stays for a while when its last offset is gone"


def test_offsets_of_no_group_cannot_be_deleted(connection: WireConnection, group: str, topic: str) -> None:
    assert delete_offsets(connection, group, {topic: [0]}) is ErrorCode.GROUP_ID_NOT_FOUND
    assert delete_offsets(connection, "", {topic: [0]}) is ErrorCode.INVALID_GROUP_ID


def test_offsets_go_with_their_topic(connection: WireConnection, group: str, topic: str) -> None:
    commit(connection, group, {topic: {0: 7}})

    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000)
    (result,) = ask(connection, request, 5).responses
    assert result.error_code is ErrorCode.NONE

    wait_until(lambda: fetch(connection, group, None) == {}, "the offsets are gone")


# -- groups of the newer protocol


@pytest.fixture
def newer(connection: WireConnection, group: str, topic: str) -> Iterator[EpochMember]:
    """The only member of a consumer group that reads the topic."""
    member = join_newer(connection, group, topic)
    yield member
    member.leave(connection)


def test_a_commit_must_have_the_current_member_epoch(
    connection: WireConnection, topic: str, newer: EpochMember
) -> None:
    def attempt(member_id: str, epoch: int, version: int = 9) -> ErrorCode:
        (error,) = commit(
            connection,
            newer.group,
            {topic: {0: 7}},
            version=version,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
        )
        return error

    me, now = newer.member_id, newer.epoch
    assert attempt(me, now) is ErrorCode.NONE
    assert attempt(me, now, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert attempt(me, now + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert attempt(me, now - 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert attempt(me, -1) is ErrorCode.STALE_MEMBER_EPOCH
    assert attempt("someone else", now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert attempt("", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_offset_fetch_with_a_member_id_must_have_the_current_member_epoch(
    connection: WireConnection, topic: str, newer: EpochMember
) -> None:
    commit(
        connection,
        newer.group,
        {topic: {0: 7}},
        member_id=newer.member_id,
        generation_id_or_member_epoch=newer.epoch,
    )

    def attempt(member: tuple[str, int] | None, *, require_stable: bool = False) -> object:
        return fetch(connection, newer.group, {topic: [0]}, member=member, require_stable=require_stable)

    seven = {(topic, 0): (7, -1, "", ErrorCode.NONE)}
    assert attempt(None) == seven
    for is_stable in (False, True):
        assert attempt((newer.member_id, newer.epoch), require_stable=is_stable) == seven
        assert (
            attempt((newer.member_id, newer.epoch + 1), require_stable=is_stable)
            is ErrorCode.STALE_MEMBER_EPOCH
        )
        assert attempt(("someone else", 1), require_stable=is_stable) is ErrorCode.UNKNOWN_MEMBER_ID
        assert attempt(("", -1), require_stable=is_stable) is ErrorCode.UNKNOWN_MEMBER_ID


# -- after a restart


def test_offsets_and_groups_survive_a_crash(broker: Broker) -> None:
    with WireConnection(broker.port) as connection:
        create_topic(connection, "orders", partitions=3)
        await_coordinator(connection, "kept")
        commit(connection, "kept", {"orders": {0: 7, 1: 8}}, metadata="note", leader_epoch=2)
        commit(connection, "kept", {"orders": {0: 9}})
        commit(connection, "deleted", {"orders": {0: 7}})
        assert delete_groups(connection, "deleted") == {"deleted": ErrorCode.NONE}
        assert delete_offsets(connection, "kept", {"orders": [1]}) == [ErrorCode.NONE]
        join(connection, "left", "orders").leave(connection)
        commit(connection, "newer", {"orders": {0: 5}})
        join_newer(connection, "newer", "orders").leave(connection)

    broker.kill()
    broker.start()

    with WireConnection(broker.port) as connection:
        await_coordinator(connection, "kept")
        wait_until(
            lambda: (
                ask(connection, ListGroupsRequest(), 5).error_code
                is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            ),
            "all groups are loaded",
        )
        assert listed(connection, "kept", "deleted", "left", "newer") == ["kept", "left", "newer"]
        assert listed(connection, "newer", types_filter=["consumer"]) == ["newer"]
        assert fetch(connection, "newer", None) == {("orders", 0): (5, -1, "", ErrorCode.NONE)}
        assert fetch(connection, "kept", None) == {("orders", 0): (9, -1, "", ErrorCode.NONE)}
