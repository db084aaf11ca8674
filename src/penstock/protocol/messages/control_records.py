"""Control records: what brokers and controllers write into logs for one another, and never hand to applications.

The key of such a record is an int16 version and a `ControlRecordTypeSchema`, whose `type` tells what the value is:

    0  EndTxnMarker: abort       3  SnapshotHeaderRecord       6  VotersRecord
    1  EndTxnMarker: commit      4  SnapshotFooterRecord
    2  LeaderChangeMessage       5  KRaftVersionRecord

A marker too follows an int16 version. The others carry `version` as their first field instead, and stand in the
metadata log and its snapshots alone.

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
    kraft_version: Int16


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
    kraft_version_feature: KRaftVersionFeature


@message(versions=(0, 0), flexible=0)
class VotersRecord:
    version: Int16
    voters: list[Voter]
