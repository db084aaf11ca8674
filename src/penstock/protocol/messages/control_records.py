"""Control records: written to logs by brokers and controllers, and never returned to applications.

The key of such a record is an int16 version and a `ControlRecordTypeSchema`, whose `type` determines the value:

    0  EndTxnMarker: abort       3  SnapshotHeaderRecord       6  VotersRecord
    1  EndTxnMarker: commit      4  SnapshotFooterRecord
    2  LeaderChangeMessage       5  KRaftVersionRecord

A marker also follows an int16 version. The others have `version` as their first field instead, and are only in the
metadata log and its snapshots.

v1 of LeaderChangeMessage adds voter_directory_id (KIP-853).
"""

from __future__ import annotations

from penstock.protocol.declare import field, message, struct
from penstock.protocol.types import ZERO_UUID, Int16, Int32, Int64, UInt16, Uuid


@message(versions=(0, 0))
class ControlRecordTypeSchema:
    type: Int16


@message(versions=(0, 0))
class EndTxnMarker:
    coordinator_epoch: Int32


@struct
class LeaderChangeVoter:
    voter_id: Int32
    voter_directory_id: Uuid = field(since=1, default=ZERO_UUID)


@message(versions=(0, 1), flexible=0)
class LeaderChangeMessage:
    version: Int16
    leader_id: Int32
    voters: list[LeaderChangeVoter]
    granting_voters: list[LeaderChangeVoter]


@message(versions=(0, 0), flexible=0)
class SnapshotHeaderRecord:
    version: Int16
    last_contained_log_timestamp: Int64


@message(versions=(0, 0), flexible=0)
class SnapshotFooterRecord:
    version: Int16


@message(versions=(0, 0), flexible=0)
class KRaftVersionRecord:
    version: Int16
    k_raft_version: Int16


@struct
class Endpoint:
    name: str
    host: str
    port: UInt16


@struct
class KRaftVersionFeature:
    min_supported_version: Int16
    max_supported_version: Int16


@struct
class Voter:
    voter_id: Int32
    voter_directory_id: Uuid
    endpoints: list[Endpoint]
    k_raft_version_feature: KRaftVersionFeature


@message(versions=(0, 0), flexible=0)
class VotersRecord:
    version: Int16
    voters: list[Voter]
