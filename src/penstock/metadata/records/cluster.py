"""Records about the cluster: controllers, features, settings, quotas, producer ids."""

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
    """A controller registered with the active controller."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: bool
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]


@record(key=12, versions=(0, 0), flexible=0)
class FeatureLevelRecord:
    """A feature of the cluster has a new level. A log and a snapshot start with `metadata.version`, on which the other
    records depend, so this record will never have another version."""

    name: str
    feature_level: Int16  # 0: disabled


@record(key=4, versions=(0, 0), flexible=0)
class ConfigRecord:
    """A setting of a resource was set or removed."""

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
    """A quota of users, client ids or IP addresses was set or removed."""

    entity: list[EntityData]
    key: str
    value: Float64  # ignored if the quota is removed
    remove: bool


@record(key=15, versions=(0, 0), flexible=0)
class ProducerIdsRecord:
    """A block of producer ids was allocated to a broker. The next block starts at `next_producer_id`."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64


@record(key=21, versions=(0, 0), flexible=0)
class ZkMigrationStateRecord:
    """The state of a migration from ZooKeeper. Only migrated clusters have it."""

    zk_migration_state: Int8  # 0 none, 2 pre-migration, 1 migration, 3 done
