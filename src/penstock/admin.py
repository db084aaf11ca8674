"""The types of arguments and results of `Admin`: topics, settings, groups, offsets, ACLs, quotas, users and the rest.

Each is defined in a module of `penstock.client.admin`, and is imported on first use.
"""

from penstock._lazy import names_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.client.admin.acls import Acl, AclFilter, AclPermission, AclResourceType, PatternType
    from penstock.client.admin.cluster import BrokerDescription, ClusterDescription, ServedApi
    from penstock.client.admin.configs import (
        Config,
        ConfigChange,
        ConfigEntry,
        ConfigResource,
        ConfigSource,
        ConfigSynonym,
        ConfigType,
        ResourceType,
    )
    from penstock.client.admin.features import Feature, FeaturesDescription, FeatureUpdate, UpgradeType
    from penstock.client.admin.group_offsets import GroupOffset
    from penstock.client.admin.groups import (
        ClassicGroup,
        ConsumerGroup,
        ConsumerMember,
        GroupDescription,
        GroupListing,
        GroupMember,
        GroupState,
        GroupType,
        ShareGroup,
        StreamsGroup,
        StreamsMember,
        StreamsSubtopology,
        TaskAssignment,
    )
    from penstock.client.admin.lag import PartitionLag
    from penstock.client.admin.log_dirs import LogDirectory, Replica, ReplicaSize
    from penstock.client.admin.offsets import ListedOffset
    from penstock.client.admin.operations import AclOperation
    from penstock.client.admin.quorum import Endpoint, QuorumDescription, QuorumNode, QuorumReplica
    from penstock.client.admin.quotas import QuotaEntity, QuotaFilter
    from penstock.client.admin.reassignment import ElectionType, Reassignment
    from penstock.client.admin.share_groups import ShareGroupOffset
    from penstock.client.admin.tokens import DelegationToken
    from penstock.client.admin.topics import (
        CreatedTopic,
        NewPartitions,
        NewTopic,
        PartitionDescription,
        TopicDescription,
        TopicListing,
    )
    from penstock.client.admin.transactions import (
        FencedProducer,
        ProducerState,
        TransactionDescription,
        TransactionListing,
        TransactionState,
    )
    from penstock.client.admin.users import ScramCredential, ScramDeletion, ScramMechanism, ScramUpsertion

__all__ = [
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "AclResourceType",
    "BrokerDescription",
    "ClassicGroup",
    "ClusterDescription",
    "Config",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConsumerGroup",
    "ConsumerMember",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "Endpoint",
    "Feature",
    "FeatureUpdate",
    "FeaturesDescription",
    "FencedProducer",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupOffset",
    "GroupState",
    "GroupType",
    "ListedOffset",
    "LogDirectory",
    "NewPartitions",
    "NewTopic",
    "PartitionDescription",
    "PartitionLag",
    "PatternType",
    "ProducerState",
    "QuorumDescription",
    "QuorumNode",
    "QuorumReplica",
    "QuotaEntity",
    "QuotaFilter",
    "Reassignment",
    "Replica",
    "ReplicaSize",
    "ResourceType",
    "ScramCredential",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "ServedApi",
    "ShareGroup",
    "ShareGroupOffset",
    "StreamsGroup",
    "StreamsMember",
    "StreamsSubtopology",
    "TaskAssignment",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpgradeType",
]

if not TYPE_CHECKING:
    _FAMILIES = {
        "acls": "Acl AclFilter AclPermission AclResourceType PatternType",
        "cluster": "BrokerDescription ClusterDescription ServedApi",
        "configs": "Config ConfigChange ConfigEntry ConfigResource ConfigSource ConfigSynonym ConfigType ResourceType",
        "features": "Feature FeatureUpdate FeaturesDescription UpgradeType",
        "group_offsets": "GroupOffset",
        "groups": (
            "ClassicGroup ConsumerGroup ConsumerMember GroupDescription GroupListing GroupMember GroupState GroupType "
            "ShareGroup StreamsGroup StreamsMember StreamsSubtopology TaskAssignment"
        ),
        "lag": "PartitionLag",
        "log_dirs": "LogDirectory Replica ReplicaSize",
        "offsets": "ListedOffset",
        "operations": "AclOperation",
        "quorum": "Endpoint QuorumDescription QuorumNode QuorumReplica",
        "quotas": "QuotaEntity QuotaFilter",
        "reassignment": "ElectionType Reassignment",
        "share_groups": "ShareGroupOffset",
        "tokens": "DelegationToken",
        "topics": "CreatedTopic NewPartitions NewTopic PartitionDescription TopicDescription TopicListing",
        "transactions": "FencedProducer ProducerState TransactionDescription TransactionListing TransactionState",
        "users": "ScramCredential ScramDeletion ScramMechanism ScramUpsertion",
    }
    __getattr__, __dir__ = names_from(
        __name__,
        {
            name: f"penstock.client.admin.{family}"
            for family, names in _FAMILIES.items()
            for name in names.split()
        },
    )
