"""Records about brokers: registration, fencing, unregistration."""

from __future__ import annotations

from penstock.protocol.declare import field, record, struct
from penstock.protocol.types import Int8, Int16, Int32, Int64, UInt16, Uuid


@struct
class BrokerEndpoint:
    name: str
    host: str
    port: UInt16
    security_protocol: Int16  # 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL


@struct
class BrokerFeature:
    name: str
    min_supported_version: Int16
    max_supported_version: Int16


@record(key=0, versions=(0, 4), flexible=0)
class RegisterBrokerRecord:
    """A broker registered. Its epoch is the offset of this record; it is fenced until a heartbeat shows it caught up.

    v1 adds in_controlled_shutdown (KIP-841).
    v2 adds is_migrating_zk_broker (KIP-866).
    v3 adds log_dirs (KIP-858).
    v4 adds cordoned_log_dirs (KIP-1066).
    """

    broker_id: Int32
    is_migrating_zk_broker: bool = field(since=2, default=False)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: str | None
    fenced: bool = True
    in_controlled_shutdown: bool = field(since=1, default=False)
    log_dirs: list[Uuid] = field(since=3, default=[], tag=0)
    cordoned_log_dirs: list[Uuid] | None = field(
        since=4, default=None, tag=1
    )  # None: not known before the first heartbeat


@record(key=17, versions=(0, 3), flexible=0)
class BrokerRegistrationChangeRecord:
    """A change of a broker's registration. The defaults mean "unchanged".

    v1 adds in_controlled_shutdown (KIP-841).
    v2 adds log_dirs (KIP-858).
    v3 adds cordoned_log_dirs (KIP-1066).
    """

    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = field(default=0, tag=0)  # 1 fenced, -1 unfenced
    in_controlled_shutdown: Int8 = field(since=1, default=0, tag=1)  # 1: it is in controlled shutdown
    log_dirs: list[Uuid] = field(since=2, default=[], tag=2)
    cordoned_log_dirs: list[Uuid] | None = field(since=3, default=None, tag=3)


@record(key=7, versions=(0, 0), flexible=0)
class FenceBrokerRecord:
    """A broker was fenced. Only in old logs; now BrokerRegistrationChangeRecord is used."""

    id: Int32
    epoch: Int64


@record(key=8, versions=(0, 0), flexible=0)
class UnfenceBrokerRecord:
    """A broker was unfenced. Only in old logs; now BrokerRegistrationChangeRecord is used."""

    id: Int32
    epoch: Int64


@record(key=1, versions=(0, 0), flexible=0)
class UnregisterBrokerRecord:
    """A broker was unregistered."""

    broker_id: Int32
    broker_epoch: Int64
