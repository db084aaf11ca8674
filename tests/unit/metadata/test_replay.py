"""The effect of each record on the image, and the delta."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock.metadata.directories import MIGRATING
from penstock.metadata.errors import CorruptMetadata
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from penstock.metadata.resources import CLUSTER_DEFAULTS, topic_resource
from penstock.protocol.types import Uuid

ORDERS = Uuid(b"orders".ljust(16, b"\0"))
RETURNS = Uuid(b"returns".ljust(16, b"\0"))
DIRECTORY = Uuid(b"directory".ljust(16, b"\0"))


def image_of(*records: object) -> MetadataImage:
    return EMPTY_IMAGE.apply(records, offset=len(records) - 1, epoch=1).image


def partition(index: int, topic_id: Uuid = ORDERS, replicas: tuple[int, ...] = (1,)) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=list(replicas),
        removing_replicas=[],
        adding_replicas=[],
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIRECTORY] * len(replicas),
    )


def setting(name: str, value: str | None, topic: str = "orders") -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=topic, name=name, value=value)


def broker(node_id: int = 1, epoch: int = 7) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=Uuid(bytes(16)),
        broker_epoch=epoch,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        features=[BrokerFeature(name="group.version", min_supported_version=0, max_supported_version=1)],
        rack="r1",
        log_dirs=[DIRECTORY],
    )


TWO_TOPICS = (
    TopicRecord(name="orders", topic_id=ORDERS),
    partition(0),
    partition(1),
    TopicRecord(name="returns.eu", topic_id=RETURNS),
    partition(0, RETURNS),
)


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = image_of(*TWO_TOPICS)

    orders = image.topics.get("orders")
    assert orders is not None
    assert orders is image.topics.with_id(ORDERS)
    assert len(orders.partitions) == 2
    assert image.topics.partition("orders", 1) is orders.partitions[1]
    assert image.topics.partition("orders", 2) is None
    assert image.topics.partition("orders", -1) is None
    assert image.topics.by_unified_name == {"returns_eu": ("returns.eu",)}
    assert (image.offset, image.epoch) == (4, 1)


def test_a_delta_lists_created_topics_and_shares_unchanged_parts() -> None:
    before = image_of(*TWO_TOPICS)

    delta = before.apply([partition(2)], offset=5, epoch=1)

    assert list(delta.topics) == [ORDERS]
    assert delta.topics[ORDERS].changed_partitions == (2,)
    assert not delta.topics[ORDERS].is_created
    assert delta.image.topics.get("returns.eu") is before.topics.get("returns.eu")
    assert delta.image.topics.names_by_id is before.topics.names_by_id
    assert delta.image.brokers is before.brokers
    assert len(before.topics.by_name["orders"].partitions) == 2, "the old image still says what it said"


def test_the_settings_of_a_deleted_topic_are_deleted() -> None:
    before = image_of(*TWO_TOPICS, setting("retention.ms", "1"), setting("retention.ms", "2", "returns.eu"))

    delta = before.apply([RemoveTopicRecord(topic_id=ORDERS)], offset=8, epoch=1)

    assert delta.topics[ORDERS].is_deleted
    assert delta.configs == (topic_resource("orders"),)
    assert list(delta.image.topics.by_name) == ["returns.eu"]
    assert list(delta.image.configs) == [topic_resource("returns.eu")]


def test_a_topic_can_be_deleted_and_recreated_in_one_batch() -> None:
    before = image_of(*TWO_TOPICS, setting("retention.ms", "1"))
    again = Uuid(b"again".ljust(16, b"\0"))

    delta = before.apply(
        [
            RemoveTopicRecord(topic_id=ORDERS),
            TopicRecord(name="orders", topic_id=again),
            setting("segment.ms", "5"),
            partition(0, again),
        ],
        offset=9,
        epoch=1,
    )

    assert delta.topics[ORDERS].is_deleted
    assert delta.topics[again].is_created
    assert delta.image.topics.by_name["orders"].topic_id == again
    assert delta.image.settings_of(topic_resource("orders")) == {"segment.ms": "5"}


def test_a_topic_that_is_created_and_deleted_in_one_batch_leaves_no_trace() -> None:
    delta = EMPTY_IMAGE.apply([*TWO_TOPICS[:3], RemoveTopicRecord(topic_id=ORDERS)], offset=3, epoch=1)

    assert delta.topics == {}
    assert delta.image.topics.by_name == {}
    assert delta.image.topics.names_by_id == {}


def test_naming_a_leader_starts_an_epoch_even_if_it_is_the_same_one() -> None:
    before = image_of(*TWO_TOPICS)

    image = before.apply(
        [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=1)], offset=5, epoch=2
    ).image

    changed = image.topics.by_name["orders"].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 1, 1)


def test_a_partition_change_keeps_unnamed_fields() -> None:
    before = image_of(TWO_TOPICS[0], partition(0, replicas=(1, 2)))

    image = before.apply(
        [PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[2], eligible_leader_replicas=[1])],
        offset=5,
        epoch=1,
    ).image

    changed = image.topics.by_name["orders"].partitions[0]
    assert changed.isr == (2,)
    assert changed.eligible_leaders == (1,)
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 0, 1)
    assert changed.replicas == (1, 2)
    assert changed.directories == (DIRECTORY, DIRECTORY)


def eligible(topic_id: Uuid) -> PartitionChangeRecord:
    """Partition 0 of the topic has eligible leader replicas."""
    return PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, eligible_leader_replicas=[2], last_known_elr=[1]
    )


@pytest.mark.parametrize(("name", "cleared"), [("orders", {ORDERS}), ("", {ORDERS, RETURNS}), ("x", set())])
def test_eligible_leaders_are_cleared_in_a_new_partition_epoch(name: str, cleared: set[Uuid]) -> None:
    before = image_of(*TWO_TOPICS, eligible(ORDERS), eligible(RETURNS))

    delta = before.apply([ClearElrRecord(topic_name=name)], offset=9, epoch=1)

    assert set(delta.topics) == cleared
    for topic_id in (ORDERS, RETURNS):
        topic = delta.image.topics.with_id(topic_id)
        assert topic is not None
        changed = topic.partitions[0]
        assert (changed.eligible_leaders, changed.last_known_leaders, changed.partition_epoch) == (
            ((), (), 2) if topic_id in cleared else ((2,), (1,), 1)
        )


def test_eligible_leaders_of_a_topic_that_was_created_again_are_cleared() -> None:
    before = image_of(*TWO_TOPICS, eligible(ORDERS))
    again = Uuid(b"orders, later".ljust(16, b"\0"))
    records = [
        RemoveTopicRecord(topic_id=ORDERS),
        TopicRecord(name="orders", topic_id=again),
        partition(0, again),
        eligible(again),
        ClearElrRecord(topic_name="orders"),
    ]

    image = before.apply(records, offset=9, epoch=1).image

    assert image.topics.by_name["orders"].partitions[0].eligible_leaders == ()


def test_clearing_eligible_leaders_of_one_topic_does_not_walk_all_topics() -> None:
    class NotWalked(dict[Uuid, str]):
        def __iter__(self) -> Iterator[Uuid]:
            raise AssertionError("10,000 topics with one record each would take minutes")

    before = image_of(*TWO_TOPICS, eligible(ORDERS))
    topics = replace(before.topics, names_by_id=NotWalked(before.topics.names_by_id))

    image = (
        replace(before, topics=topics).apply([ClearElrRecord(topic_name="orders")], offset=9, epoch=1).image
    )

    assert image.topics.by_name["orders"].partitions[0].eligible_leaders == ()


def test_a_partition_without_directories_is_from_before_they_had_ids() -> None:
    old = partition(0)
    old.directories = []

    assert image_of(TWO_TOPICS[0], old).topics.by_name["orders"].partitions[0].directories == (MIGRATING,)


def test_a_setting_is_set_and_taken_back() -> None:
    image = image_of(setting("a", "1"), setting("b", "2"), setting("a", None))

    assert image.settings_of(topic_resource("orders")) == {"b": "2"}
    assert image.apply([setting("b", None)], offset=4, epoch=1).image.configs == {}


def test_a_setting_of_all_nodes_has_an_empty_name() -> None:
    record = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1")

    delta = EMPTY_IMAGE.apply([record], offset=0, epoch=1)

    assert delta.image.settings_of(CLUSTER_DEFAULTS) == {"min.insync.replicas": "1"}
    assert delta.configs == (CLUSTER_DEFAULTS,)


def test_an_unchanged_setting_that_is_written_again_is_in_the_delta() -> None:
    before = image_of(setting("a", "1"))

    assert before.apply([setting("a", "1")], offset=1, epoch=1).configs == (topic_resource("orders"),)


def test_a_feature_at_level_0_is_absent() -> None:
    before = image_of(FeatureLevelRecord(name="group.version", feature_level=1))

    delta = before.apply([FeatureLevelRecord(name="group.version", feature_level=0)], offset=1, epoch=1)

    assert before.features == {"group.version": 1}
    assert delta.image.features == {}
    assert delta.features == ("group.version",)


def test_a_broker_registers_is_unfenced_and_unregisters() -> None:
    registered = image_of(broker())
    assert registered.brokers[1].is_fenced
    assert registered.brokers[1].rack == "r1"
    assert 1 in registered.brokers[1].features["group.version"]
    endpoint = registered.brokers[1].endpoint("PLAINTEXT")
    assert endpoint is not None
    assert endpoint.port == 9092

    unfenced = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1)
    active = registered.apply([unfenced], offset=1, epoch=1).image
    assert active.brokers[1].is_active
    assert active.brokers[1].directories == (DIRECTORY,)

    leaving = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, in_controlled_shutdown=1)
    assert not active.apply([leaving], offset=2, epoch=1).image.brokers[1].is_active

    gone = UnregisterBrokerRecord(broker_id=1, broker_epoch=7)
    delta = active.apply([gone], offset=2, epoch=1)
    assert delta.image.brokers == {}
    assert delta.brokers == (1,)


def test_records_of_old_logs_fence_and_unfence_too() -> None:
    image = image_of(broker(), UnfenceBrokerRecord(id=1, epoch=7))
    assert image.brokers[1].is_active

    assert image.apply([FenceBrokerRecord(id=1, epoch=7)], offset=2, epoch=1).image.brokers[1].is_fenced


def test_a_controller_registers() -> None:
    record = RegisterControllerRecord(
        controller_id=3, incarnation_id=Uuid(bytes(16)), zk_migration_ready=False, end_points=[], features=[]
    )

    assert list(image_of(record).controllers) == [3]


def test_producer_ids_only_go_up() -> None:
    image = image_of(ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000))
    assert image.next_producer_id == 1000

    with pytest.raises(CorruptMetadata, match="go back"):
        image.apply([ProducerIdsRecord(broker_id=1, next_producer_id=1000)], offset=1, epoch=1)


def test_a_metadata_transaction_takes_effect_at_its_end_or_not_at_all() -> None:
    done = image_of(BeginTransactionRecord(), *TWO_TOPICS, EndTransactionRecord(), NoOpRecord())
    assert len(done.topics) == 2

    undone = image_of(BeginTransactionRecord(), *TWO_TOPICS, AbortTransactionRecord())
    assert len(undone.topics) == 0

    with pytest.raises(CorruptMetadata, match="inside a transaction"):
        image_of(BeginTransactionRecord(), *TWO_TOPICS)


@pytest.mark.parametrize(
    "records",
    [
        [partition(0)],
        [TWO_TOPICS[0], partition(1)],
        [TWO_TOPICS[0], TWO_TOPICS[0]],
        [TWO_TOPICS[0], TopicRecord(name="orders", topic_id=RETURNS)],
        [RemoveTopicRecord(topic_id=ORDERS)],
        [*TWO_TOPICS, RemoveTopicRecord(topic_id=ORDERS), partition(0)],
        [TWO_TOPICS[0], PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=1)],
        [broker(), BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=8, fenced=-1)],
        [broker(), BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=5)],
        [UnregisterBrokerRecord(broker_id=1, broker_epoch=7)],
        [ConfigRecord(resource_type=3, resource_name="x", name="a", value="b")],
        [EndTransactionRecord()],
    ],
)
def test_an_inconsistent_log_is_refused(records: list[object]) -> None:
    with pytest.raises(CorruptMetadata):
        image_of(*records)


def acl(resource_name: str) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=ORDERS,
        resource_type=2,
        resource_name=resource_name,
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )


def quota(value: float, *, remove: bool = False, user: str | None = "a") -> ClientQuotaRecord:
    entity = [EntityData(entity_type="user", entity_name=user)]
    return ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=remove)


def scram(iterations: int) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"e", iterations=iterations
    )


def token(expires_ms: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner="User:a",
        requester="User:a",
        renewers=[],
        issue_timestamp=1,
        max_timestamp=9,
        expiration_timestamp=expires_ms,
        token_id="t",
    )


def test_records_that_no_part_reads_yet_are_kept_in_their_newest_form() -> None:
    image = image_of(acl("old"), scram(1), token(2), quota(1.0), acl("new"), scram(2), token(3), quota(2.0))

    assert list(image.kept.values()) == [acl("new"), scram(2), token(3), quota(2.0)]


def test_removed_records_are_no_longer_kept() -> None:
    image = image_of(acl("orders"), scram(1), token(2), quota(1.0), quota(3.0, user=None))

    image = image.apply(
        [
            RemoveAccessControlEntryRecord(id=ORDERS),
            RemoveUserScramCredentialRecord(name="a", mechanism=1),
            RemoveDelegationTokenRecord(token_id="t"),
            quota(0.0, remove=True),
        ],
        offset=9,
        epoch=1,
    ).image

    assert list(image.kept.values()) == [quota(3.0, user=None)]
