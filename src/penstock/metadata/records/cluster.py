"""Records about the cluster as a whole: controllers, features, settings, quotas, blocks of producer ids."""

from __future__ import annotations

from penstock.protocol.declare import record, struct
from penstock.protocol.types import Float64, Int8, Int16, Int32, Int64, UInt16, Uuid


@struct
class ControllerEndpoint:
    name: str
    host: str
    port: UInt16
    security_protocol: Int16  # 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL


@struct
class ControllerFeature:
    name: str
    min_supported_version: Int16
    max_supported_version: Int16


@record(key=27, versions=(0, 0), flexible=0)
class RegisterControllerRecord:
    """A controller registered with the active one."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: bool
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]


@record(key=12, versions=(0, 0), flexible=0)
class FeatureLevelRecord:
    """A feature of the cluster has a new level. A log and a snapshot open with that of `metadata.version`, by which
    the rest is read, so this record will never have another version."""

    name: str
    feature_level: Int16  # 0: off


@record(key=4, versions=(0, 0), flexible=0)
class ConfigRecord:
    """A setting of a resource was set, or taken back."""

    resource_type: Int8  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
    resource_name: str  # empty: all brokers
    name: str
    value: str | None  # None: back to the default


@struct
class EntityData:
    entity_type: str
    entity_name: str | None  # None: the default


@record(key=14, versions=(0, 0), flexible=0)
class ClientQuotaRecord:
    """A quota of users, client ids or addresses was set, or removed."""

    entity: list[EntityData]
    key: str
    value: Float64  # means nothing where it is removed
    remove: bool


@record(key=15, versions=(0, 0), flexible=0)
class ProducerIdsRecord:
    """A broker got a block of producer ids; the next block begins at `next_producer_id`."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64


@record(key=21, versions=(0, 0), flexible=0)
class ZkMigrationStateRecord:
    """How far a move from ZooKeeper has come. Only clusters that once made it have such a record."""

    zk_migration_state: Int8  # 0 none, 2 about to begin, 1 under way, 3 done
