"""Control records of the metadata log: who leads an epoch, which protocol the quorum speaks, and who votes in
it.

The key of a control record is its version and its type; the value is one of the messages below, which repeat
their version as their first field. A quorum that speaks KRaft version 1 (KIP-853) keeps its voters in the log
itself.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TypeVar

from penstock.protocol.codec import codec
from penstock.protocol.declare import declaration_of, message, struct
from penstock.protocol.types import Int16, Int32, UInt16, Uuid
from penstock.quorum.core import LeaderChange
from penstock.quorum.voters import ReplicaKey, Voter, VoterEndpoint, Voters

KRAFT_VERSION = 1
KRAFT_VERSION_MIN = 0

_KEY = Struct(">hh")
_KEY_VERSION = 0

M = TypeVar("M")


class ControlType(IntEnum):
    LEADER_CHANGE = 2
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@struct
class ChangeVoter:
    voter_id: Int32


@message(versions=(0, 0), flexible=0)
class LeaderChangeMessage:
    """Kafka declares a version 1, with directory ids, but neither writes it nor has tools that read it."""

    version: Int16
    leader_id: Int32
    voters: list[ChangeVoter]
    granting_voters: list[ChangeVoter]


@message(versions=(0, 0), flexible=0)
class KRaftVersionRecord:
    version: Int16
    k_raft_version: Int16


@struct
class VotersEndpoint:
    name: str
    host: str
    port: UInt16


@struct
class VotersKRaftVersion:
    min_supported_version: Int16
    max_supported_version: Int16


@struct
class VotersVoter:
    voter_id: Int32
    voter_directory_id: Uuid
    endpoints: list[VotersEndpoint]
    k_raft_version_feature: VotersKRaftVersion


@message(versions=(0, 0), flexible=0)
class VotersRecord:
    version: Int16
    voters: list[VotersVoter]


ControlRecord = tuple[bytes, bytes]
"""Key and value."""


def leader_change_record(change: LeaderChange) -> ControlRecord:
    return _encode(
        ControlType.LEADER_CHANGE,
        LeaderChangeMessage(
            version=0,
            leader_id=change.leader_id,
            voters=[ChangeVoter(voter_id=voter.key.node_id) for voter in change.voters],
            granting_voters=[ChangeVoter(voter_id=node_id) for node_id in change.granting],
        ),
    )


def voters_records(voters: Voters) -> list[ControlRecord]:
    """What makes `voters` the quorum from here on."""
    range_of_versions = VotersKRaftVersion(
        min_supported_version=KRAFT_VERSION_MIN, max_supported_version=KRAFT_VERSION
    )
    listed = [
        VotersVoter(
            voter_id=voter.key.node_id,
            voter_directory_id=voter.key.directory_id,
            endpoints=[
                VotersEndpoint(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
                for endpoint in voter.endpoints
            ],
            k_raft_version_feature=range_of_versions,
        )
        for voter in voters
    ]
    return [
        _encode(ControlType.KRAFT_VERSION, KRaftVersionRecord(version=0, k_raft_version=KRAFT_VERSION)),
        _encode(ControlType.KRAFT_VOTERS, VotersRecord(version=0, voters=listed)),
    ]


def read_voters(key: bytes, value: bytes) -> Voters | None:
    """The voters that a control record names, or None where it is of another type."""
    _, control_type = _KEY.unpack_from(key)
    if control_type != ControlType.KRAFT_VOTERS:
        return None
    record = _decode(VotersRecord, value)
    return Voters(
        Voter(
            ReplicaKey(voter.voter_id, voter.voter_directory_id),
            tuple(VoterEndpoint(endpoint.name, endpoint.host, endpoint.port) for endpoint in voter.endpoints),
        )
        for voter in record.voters
    )


def _encode(
    control_type: ControlType, body: LeaderChangeMessage | KRaftVersionRecord | VotersRecord
) -> ControlRecord:
    return _KEY.pack(_KEY_VERSION, control_type), codec(type(body), body.version).encode(body)


def _decode(cls: type[M], value: bytes) -> M:
    decoded, _ = codec(cls, declaration_of(cls).last_version).decode(value)
    return decoded
