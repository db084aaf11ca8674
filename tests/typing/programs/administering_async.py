"""Every call of an async admin, with its arguments and results. Never run: type checkers read it."""

from __future__ import annotations

from penstock.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    BrokerDescription,
    ClassicGroup,
    ClusterDescription,
    Config,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    ConsumerGroup,
    ConsumerMember,
    CreatedTopic,
    DelegationToken,
    ElectionType,
    Endpoint,
    Feature,
    FeaturesDescription,
    FeatureUpdate,
    FencedProducer,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupOffset,
    GroupState,
    GroupType,
    ListedOffset,
    LogDirectory,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    PartitionLag,
    PatternType,
    ProducerState,
    QuorumDescription,
    QuorumNode,
    QuorumReplica,
    QuotaEntity,
    QuotaFilter,
    Reassignment,
    Replica,
    ReplicaSize,
    ResourceType,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
    ServedApi,
    ShareGroup,
    ShareGroupOffset,
    StreamsGroup,
    StreamsMember,
    StreamsSubtopology,
    TaskAssignment,
    TopicDescription,
    TopicListing,
    TransactionDescription,
    TransactionListing,
    TransactionState,
    UpgradeType,
)
from penstock.aio import Admin, PreparedTransaction, TopicPartition
from penstock.client.settings import AdminSettings

FIRST = TopicPartition("orders", 0)


async def open_and_close() -> None:
    async with Admin("localhost:9092", client_id="me", request_timeout_ms=1000) as admin:
        await admin.connect(timeout=1)
    other = Admin(["a:1", "b:1"], settings={"retries": "3"})
    await other.close()
    reported: object = other.settings.get("retries")
    print(reported)
    same = Admin.of(AdminSettings.of("localhost:9092"))
    await same.close()


async def manage_topics(admin: Admin) -> None:
    created: CreatedTopic = await admin.create_topic("orders", 3, config={"retention.ms": 1000})
    several: dict[str, CreatedTopic] = await admin.create_topics(
        [NewTopic(name="a", partitions=1), "b"], validate_only=True
    )
    await admin.create_partitions({"orders": 6, "a": NewPartitions(total=2, replicas=[[1]])})
    topics: list[TopicListing] = await admin.list_topics(include_internal=True)
    topic: TopicDescription = await admin.describe_topic("orders", include_authorized_operations=True)
    described: dict[str, TopicDescription] = await admin.describe_topics([listed.name for listed in topics])
    partitions: tuple[PartitionDescription, ...] = topic.partitions
    await admin.delete_topic("a", timeout=0.1)
    await admin.delete_topics(["b"])
    print(created, several, described, partitions)


async def manage_settings(admin: Admin) -> None:
    resource = ConfigResource.topic("orders")
    config: Config = await admin.describe_config(resource, names=["retention.ms"], synonyms=True)
    configs: dict[ConfigResource, Config] = await admin.describe_configs([resource, ConfigResource.broker(1)])
    await admin.alter_config(
        resource, {"retention.ms": 5}, unset=["segment.ms"], append={"cleanup.policy": "compact"}
    )
    await admin.alter_configs({resource: ConfigChange(set={"retention.ms": 5})}, validate_only=True)
    resources: list[ConfigResource] = await admin.list_config_resources([ResourceType.GROUP])
    entry: ConfigEntry = config["retention.ms"]
    source: ConfigSource = entry.source
    kind: ConfigType = entry.type
    synonyms: tuple[ConfigSynonym, ...] = entry.synonyms
    print(configs, resources, source, kind, synonyms)


async def manage_groups(admin: Admin) -> None:
    groups: list[GroupListing] = await admin.list_groups(
        types=[GroupType.CONSUMER], states=[GroupState.STABLE, "Empty"]
    )
    group: GroupDescription = await admin.describe_group("billing", type=GroupType.CLASSIC)
    described: dict[str, GroupDescription] = await admin.describe_groups(
        [listed.group_id for listed in groups]
    )
    if isinstance(group, ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup):
        members: tuple[GroupMember, ...] = tuple(group.members)
        for member in members:
            if isinstance(member, ConsumerMember | StreamsMember):
                print(member.member_id)
    await admin.remove_members("billing", member_ids=["one"], instance_ids=["two"], reason="tired")
    await admin.delete_group("billing")
    await admin.delete_groups(["billing"])
    print(described, StreamsSubtopology, TaskAssignment)


async def manage_offsets(admin: Admin) -> None:
    committed: dict[TopicPartition, GroupOffset | None] = await admin.list_group_offsets(
        "billing", [FIRST, ("orders", 1)]
    )
    of_many: dict[str, dict[TopicPartition, GroupOffset | None]] = await admin.list_groups_offsets(
        {"billing": None}
    )
    await admin.alter_group_offsets("billing", {FIRST: 5})
    await admin.delete_group_offsets("billing", [FIRST])
    lag: list[PartitionLag] = await admin.group_lag("billing")
    lags: dict[str, list[PartitionLag]] = await admin.groups_lag(["billing"])
    shared: dict[TopicPartition, ShareGroupOffset] = await admin.list_share_group_offsets("sharing")
    await admin.alter_share_group_offsets("sharing", {FIRST: 5})
    await admin.delete_share_group_offsets("sharing", ["orders"])
    listed: dict[TopicPartition, ListedOffset] = await admin.list_offsets(
        {FIRST: "latest"}, read_committed=True
    )
    ends: dict[TopicPartition, ListedOffset] = await admin.topic_offsets(["orders"], "earliest")
    deleted: dict[TopicPartition, int] = await admin.delete_records({FIRST: 5})
    print(committed, of_many, lag, lags, shared, listed, ends, deleted)


async def manage_transactions(admin: Admin) -> None:
    listed: list[TransactionListing] = await admin.list_transactions(
        states=[TransactionState.ONGOING], longer_than_ms=5
    )
    one: TransactionDescription = await admin.describe_transaction("shop")
    several: dict[str, TransactionDescription] = await admin.describe_transactions(["shop"])
    producers: dict[TopicPartition, list[ProducerState]] = await admin.describe_producers([FIRST], broker=1)
    await admin.abort_transaction(FIRST, producer_id=1, producer_epoch=2, coordinator_epoch=3)
    fenced: FencedProducer = await admin.fence_producer("shop")
    many: dict[str, FencedProducer] = await admin.fence_producers(["shop"])
    await admin.complete_transaction(PreparedTransaction("shop", 1, 2), commit=True, timeout=5)
    ended: FencedProducer = await admin.terminate_transaction("shop")
    print(listed, one, several, producers, fenced, many, ended)


async def look_at_the_cluster(admin: Admin) -> None:
    cluster: ClusterDescription = await admin.describe_cluster(include_fenced=True)
    brokers: tuple[BrokerDescription, ...] = tuple(cluster.brokers)
    for apis in (await admin.api_versions()).values():
        served: tuple[ServedApi, ...] = apis
        print(served)
    await admin.unregister_broker(3)
    quorum: QuorumDescription = await admin.describe_quorum()
    voters: tuple[QuorumReplica, ...] = quorum.voters
    nodes: tuple[QuorumNode, ...] = quorum.nodes
    await admin.add_voter(2, "directory", [Endpoint(listener="CONTROLLER", host="localhost", port=9093)])
    await admin.remove_voter(2, "directory")
    features: FeaturesDescription = await admin.describe_features(broker=1)
    feature: Feature = features.features["metadata.version"]
    await admin.update_features(
        {"a": 1, "b": FeatureUpdate(level=0, upgrade_type=UpgradeType.SAFE_DOWNGRADE)}
    )
    print(brokers, voters, nodes, feature)


async def move_replicas(admin: Admin) -> None:
    await admin.reassign_partitions({FIRST: [1, 2], TopicPartition("orders", 1): None})
    moving: dict[TopicPartition, Reassignment] = await admin.list_reassignments()
    await admin.elect_leaders([FIRST], election=ElectionType.UNCLEAN)
    folders: dict[int, list[LogDirectory]] = await admin.describe_log_dirs([1], topics=["orders"])
    sizes: list[ReplicaSize] = [replica for folder in folders[1] for replica in folder.replicas]
    await admin.alter_replica_log_dirs({Replica("orders", 0, 1): "/data/2"})
    print(moving, sizes)


async def manage_access(admin: Admin) -> None:
    acl = Acl(
        resource_type=AclResourceType.TOPIC,
        resource_name="orders",
        pattern=PatternType.LITERAL,
        principal="User:alice",
        operation=AclOperation.READ,
        permission=AclPermission.ALLOW,
    )
    await admin.create_acl(acl)
    await admin.create_acls([acl])
    acls: list[Acl] = await admin.describe_acls(AclFilter(principal="User:alice"))
    removed: dict[AclFilter, list[Acl]] = await admin.delete_acls([acl, AclFilter.exactly(acl)])
    entity = QuotaEntity.of(user="alice")
    quotas: dict[QuotaEntity, dict[str, float]] = await admin.describe_quotas(
        QuotaFilter(parts={"user": "alice"})
    )
    await admin.alter_quota(entity, {"producer_byte_rate": 1e6}, unset=["consumer_byte_rate"])
    await admin.alter_quotas({entity: {"producer_byte_rate": None}})
    users: dict[str, list[ScramCredential]] = await admin.describe_users(["alice"])
    await admin.set_password("alice", "secret", mechanism=ScramMechanism.SHA_512)
    await admin.delete_password("alice")
    await admin.alter_users([ScramUpsertion(user="alice", password="secret"), ScramDeletion(user="bob")])
    token: DelegationToken = await admin.create_token(renewers=["User:bob"], max_lifetime_ms=1000)
    expires_ms: int = await admin.renew_token(token.hmac) + await admin.expire_token(token.hmac)
    tokens: list[DelegationToken] = await admin.describe_tokens(owners=["User:alice"])
    print(acls, removed, quotas, users, expires_ms, tokens)
