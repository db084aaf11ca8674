"""Transactions on the wire: FindCoordinator, InitProducerId and the start of a transaction, with valid and invalid
input.

Also run against Apache Kafka (`--broker=kafka`), except marked tests.
"""

from __future__ import annotations

import pytest

from harness.admin import new_name
from harness.group_requests import await_coordinator
from harness.requests import ask
from harness.transactions import (
    TRANSACTION,
    Identity,
    TransactionalProducer,
    add,
    add_batched,
    add_offsets,
    add_to_one,
    await_state,
    await_transactions,
    describe,
    init,
    partition_of,
    settled,
    state_of,
)
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

STATE_TOPIC = "__transaction_state"
OFFSETS_TOPIC = "__consumer_offsets"
TOPIC, TOPIC_SOURCE = 2, 1
TIMEOUT_MAX_MS = 15 * 60_000

NONE = ErrorCode.NONE


def fenced(version: int, *, since: int) -> ErrorCode:
    """KIP-588: a code of its own for producers that were replaced, for clients that know it."""
    return ErrorCode.PRODUCER_FENCED if version >= since else ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.fixture
def connection(producing_connection: WireConnection) -> WireConnection:
    return producing_connection


@pytest.fixture
def topic(topic_written: str) -> str:
    return topic_written


@pytest.fixture
def transactional_id(connection: WireConnection) -> str:
    """An unused transactional id."""
    name = new_name("writer")
    await_transactions(connection, name)
    return name


# -- the coordinator


@pytest.mark.parametrize("version", range(1, 7))
def test_a_coordinator_is_found_in_any_version(
    connection: WireConnection, transactional_id: str, version: int
) -> None:
    (node,) = ask(connection, MetadataRequest(topics=[]), 10).brokers
    keys = [transactional_id] if version < 4 else [transactional_id, "another", ""]
    request = (
        FindCoordinatorRequest(key_type=TRANSACTION, key=transactional_id)
        if version < 4
        else FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=keys)
    )

    answered = ask(connection, request, version)

    found = [answered] if version < 4 else answered.coordinators
    assert [(each.error_code, each.node_id, each.host, each.port) for each in found] == [
        (NONE, node.node_id, node.host, node.port)
    ] * len(keys)
    if version >= 4:
        assert [each.key for each in found] == keys


def test_the_transaction_state_topic_has_kafkas_settings(
    connection: WireConnection, transactional_id: str
) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=STATE_TOPIC)])
    (found,) = ask(connection, request, 10).topics
    assert (len(found.partitions), found.is_internal) == (50, True)

    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=STATE_TOPIC, configuration_keys=None
    )
    (described,) = ask(connection, DescribeConfigsRequest(resources=[resource]), 4).results
    assert {each.name: each.value for each in described.configs if each.config_source == TOPIC_SOURCE} == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": str(100 * 1024 * 1024),
        "unclean.leader.election.enable": "false",
    }


# -- ids and epochs


@pytest.mark.parametrize("version", range(6))
def test_every_init_raises_the_epoch(connection: WireConnection, transactional_id: str, version: int) -> None:
    first = init(connection, transactional_id, version=version)
    second = init(connection, transactional_id, version=version, timeout_ms=TIMEOUT_MAX_MS)

    assert (first.error, first.producer_epoch) == (NONE, 0)
    assert second == (NONE, first.producer_id, 1)
    described = describe(connection, transactional_id)
    assert (described.transaction_state, described.transaction_timeout_ms) == ("Empty", TIMEOUT_MAX_MS)
    assert (described.producer_id, described.producer_epoch) == (first.producer_id, 1)
    assert (described.transaction_start_time_ms, described.topics) == (-1, [])


@pytest.mark.parametrize("version", range(6))
def test_producer_ids_are_unique(connection: WireConnection, transactional_id: str, version: int) -> None:
    found = [
        init(connection, transactional_id, version=version),
        init(connection, new_name("writer"), version=version),
        init(connection, None, version=version),
        init(connection, None, version=version, timeout_ms=-1),
    ]

    assert {(each.error, each.producer_epoch) for each in found} == {(NONE, 0)}
    assert len({each.producer_id for each in found}) == len(found)


@pytest.mark.parametrize("version", range(6))
def test_an_init_with_bad_input_is_refused(
    connection: WireConnection, transactional_id: str, version: int
) -> None:
    for timeout_ms in (0, -1, TIMEOUT_MAX_MS + 1, -(2**31)):
        refused = init(connection, transactional_id, version=version, timeout_ms=timeout_ms)
        assert refused == (ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1, -1)
    for timeout_ms in (60_000, 0):
        refused = init(connection, "", version=version, timeout_ms=timeout_ms)
        assert refused == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert describe(connection, transactional_id).error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_producer_continues_with_its_epoch(
    connection: WireConnection, transactional_id: str, version: int
) -> None:
    """KIP-360: a failed producer requests a new epoch, and may retry if the response is lost."""
    mine = init(connection, transactional_id, version=version).producer_id

    def go_on(producer_id: int, producer_epoch: int) -> Identity:
        return init(
            connection,
            transactional_id,
            version=version,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )

    refused = Identity(fenced(version, since=4), -1, -1)
    malformed = Identity(ErrorCode.INVALID_REQUEST, -1, -1)
    assert go_on(mine, 0) == (NONE, mine, 1)
    assert go_on(mine, 0) == (NONE, mine, 1), "asked again"
    assert go_on(mine, 1) == (NONE, mine, 2)
    assert go_on(mine, 0) == refused, "an epoch of long ago"
    assert go_on(mine, 9) == refused, "an epoch to come"
    assert go_on(mine + 9999, 2) == refused, "somebody else"
    assert go_on(-2, -2) == refused
    assert go_on(mine, -1) == malformed
    assert go_on(-1, 2) == malformed
    assert go_on(mine, 2) == (NONE, mine, 3)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_unknown_producer_gets_a_new_id(
    connection: WireConnection, transactional_id: str, version: int
) -> None:
    known = init(connection, None, version=version)
    given = {"producer_id": known.producer_id, "producer_epoch": known.producer_epoch}

    for name in (transactional_id, None):
        answered = init(connection, name, version=version, **given)
        assert (answered.error, answered.producer_epoch) == (NONE, 0)
        assert answered.producer_id != known.producer_id


@pytest.mark.parametrize("version", range(6))
def test_an_init_aborts_an_open_transaction_first(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    producer.send(topic, b"open")
    name, (mine, epoch) = producer.transactional_id, producer.identity

    assert init(connection, name, version=version) == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    await_state(connection, name, "CompleteAbort")
    described = describe(connection, name)
    assert (described.producer_id, described.producer_epoch, described.topics) == (mine, epoch + 1, [])

    answered = settled(lambda: init(connection, name, version=version), "there is a new epoch")
    assert answered == (NONE, mine, epoch + 2)
    assert producer.end(committed=True).error is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_producer_that_continues_with_its_epoch_aborts_its_own_transaction(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    producer.send(topic, b"open")
    name, (mine, epoch) = producer.transactional_id, producer.identity

    def go_on() -> Identity:
        return init(connection, name, version=version, producer_id=mine, producer_epoch=epoch)

    assert go_on() == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    assert settled(go_on, "there is a new epoch") == (NONE, mine, epoch + 1)
    assert go_on() == (NONE, mine, epoch + 1)
    assert state_of(connection, name) == "Empty"


@pytest.mark.penstock_only("Kafka looks at the id alone, and rolls back")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_fenced_producer_does_not_abort_the_transaction_of_its_successor(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    producer.send(topic, b"open")
    name, (mine, epoch) = producer.transactional_id, producer.identity

    for stale in (epoch - 1, epoch + 1):
        answered = init(connection, name, version=version, producer_id=mine, producer_epoch=stale)
        assert answered == (fenced(version, since=4), -1, -1)
    assert state_of(connection, name) == "Ongoing"
    producer.commit()


# -- partitions


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added_in_any_version(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    name = producer.transactional_id
    assert producer.add({topic: [0, 1]}, version=version) == {(topic, 0): NONE, (topic, 1): NONE}
    begun = describe(connection, name)
    assert producer.add({topic: [0, 2]}, version=version) == {(topic, 0): NONE, (topic, 2): NONE}

    described = describe(connection, name)
    assert (described.error_code, described.transaction_state) == (NONE, "Ongoing")
    assert described.transaction_start_time_ms == begun.transaction_start_time_ms > 0
    assert (described.producer_id, described.producer_epoch) == producer.identity
    (added,) = described.topics
    assert (added.topic, sorted(added.partitions)) == (topic, [0, 1, 2])


@pytest.mark.parametrize("version", range(6))
def test_all_partitions_are_added_or_none(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    assert producer.add({topic: [0, 3, -1], "nowhere": [0]}, version=version) == {
        (topic, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        (topic, 3): unknown,
        (topic, -1): unknown,
        ("nowhere", 0): unknown,
    }
    assert state_of(connection, producer.transactional_id) == "Empty"


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added_for_the_producer_of_this_epoch(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    name, (mine, epoch) = producer.transactional_id, producer.identity

    def attempt(transactional_id: str, producer_id: int, producer_epoch: int) -> ErrorCode:
        return add_to_one(connection, transactional_id, producer_id, producer_epoch, topic, version=version)

    assert attempt(name, mine, epoch - 1) is fenced(version, since=2)
    assert attempt(name, mine, epoch + 1) is fenced(version, since=2)
    assert attempt(name, mine + 9999, epoch) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert attempt(new_name("nobody"), mine, epoch) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert attempt("", mine, epoch) is ErrorCode.INVALID_REQUEST
    assert state_of(connection, name) == "Empty"
    assert attempt(name, mine, epoch) is NONE


@pytest.mark.parametrize("version", range(4))
def test_clients_do_not_write_into_internal_topics(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    await_coordinator(connection, new_name("readers"))
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    answered = producer.add({topic: [0], STATE_TOPIC: [0], OFFSETS_TOPIC: [0]}, version=version)

    assert answered == {
        (topic, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        (STATE_TOPIC, 0): refused,
        (OFFSETS_TOPIC, 0): refused,
    }


def test_brokers_add_partitions_of_offsets(
    connection: WireConnection, producer: TransactionalProducer
) -> None:
    await_coordinator(connection, new_name("readers"))

    for version in (4, 5):
        assert producer.add({OFFSETS_TOPIC: [0]}, version=version) == {(OFFSETS_TOPIC, 0): NONE}


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_without_partitions_is_one(
    connection: WireConnection, producer: TransactionalProducer, version: int
) -> None:
    assert producer.add({}, version=version) == {}

    described = describe(connection, producer.transactional_id)
    assert (described.transaction_state, described.topics) == ("Ongoing", [])
    producer.commit(version=version)


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_add_to_several_transactions_at_once(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    other = TransactionalProducer.started(connection, new_name("writer"))
    nobody = new_name("nobody")

    assert add_batched(
        connection,
        producer.transaction({topic: [0, 1]}),
        other.transaction({topic: [0, 3]}),
        TransactionalProducer(connection, nobody).transaction({topic: [0]}),
        TransactionalProducer(connection, "").transaction({topic: [0]}),
        version=version,
    ) == {
        producer.transactional_id: {(topic, 0): NONE, (topic, 1): NONE},
        other.transactional_id: {
            (topic, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
            (topic, 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        },
        nobody: {(topic, 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING},
        "": {(topic, 0): ErrorCode.INVALID_REQUEST},
    }
    assert state_of(connection, producer.transactional_id) == "Ongoing"
    assert state_of(connection, other.transactional_id) == "Empty"


@pytest.mark.penstock_only("Kafka never answers")
@pytest.mark.parametrize("version", [4, 5])
def test_a_request_without_transactions_gets_a_response(
    connection: WireConnection, transactional_id: str, version: int
) -> None:
    assert add_batched(connection, version=version) == {}


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_ask_whether_partitions_were_added(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    name, (mine, epoch) = producer.transactional_id, producer.identity
    no = ErrorCode.TRANSACTION_ABORTABLE

    def verified(*partitions: int) -> object:
        return add(
            connection, name, *producer.identity, {topic: partitions}, version=version, verify_only=True
        )

    def attempt(transactional_id: str, producer_id: int, producer_epoch: int) -> ErrorCode:
        return add_to_one(
            connection,
            transactional_id,
            producer_id,
            producer_epoch,
            topic,
            version=version,
            verify_only=True,
        )

    assert verified(0, 1) == {(topic, 0): no, (topic, 1): no}
    assert state_of(connection, name) == "Empty", "nothing is added by asking"
    producer.add({topic: [0]})
    assert verified(0, 1) == {(topic, 0): NONE, (topic, 1): no}
    assert attempt(name, mine, epoch - 1) is ErrorCode.PRODUCER_FENCED
    assert attempt(name, mine, epoch + 1) is ErrorCode.PRODUCER_FENCED
    assert attempt(name, mine + 9999, epoch) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert attempt(new_name("nobody"), mine, epoch) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert verified(0, 3) == {
        (topic, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        (topic, 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    producer.commit(version=3)
    assert verified(0) == {(topic, 0): no}


# -- offsets


@pytest.mark.parametrize("version", range(5))
def test_a_group_is_added_by_its_partition_of_offsets(
    connection: WireConnection, producer: TransactionalProducer, version: int
) -> None:
    name, (mine, epoch), group = producer.transactional_id, producer.identity, new_name("readers")
    await_coordinator(connection, group)

    def attempt(transactional_id: str, producer_id: int, producer_epoch: int) -> ErrorCode:
        return add_offsets(connection, transactional_id, producer_id, producer_epoch, group, version=version)

    assert attempt(name, mine, epoch - 1) is fenced(version, since=2)
    assert attempt(name, mine, epoch + 1) is fenced(version, since=2)
    assert attempt(name, mine + 9999, epoch) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert attempt(new_name("nobody"), mine, epoch) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert attempt("", mine, epoch) is ErrorCode.INVALID_REQUEST
    assert state_of(connection, name) == "Empty"
    assert attempt(name, mine, epoch) is NONE
    assert attempt(name, mine, epoch) is NONE

    described = describe(connection, name)
    assert described.transaction_state == "Ongoing"
    (added,) = described.topics
    assert (added.topic, added.partitions) == (OFFSETS_TOPIC, [partition_of(group)])
