"""Control records of the metadata log: leader changes, the KRaft version, and the voters.

The key of a control record is its version and type. The value is one of `control_records`, which repeat the version as
their first field. With KRaft version 1 (KIP-853), the voters are stored in the log.
"""

from __future__ import annotations

from penstock.protocol.codec import codec
from penstock.protocol.messages import control_records as messages
from penstock.quorum.ready import LeaderChange
from penstock.quorum.voters import KRaftVersions, ReplicaKey, Voter, VoterEndpoint, Voters
from penstock.records.batch import Record
from penstock.records.control import ControlType, control_key, read_control_type

KRAFT_VERSION = 1

ControlRecord = tuple[bytes, bytes]
"""Key and value."""

ControlBody = (
    messages.LeaderChangeMessage
    | messages.KRaftVersionRecord
    | messages.VotersRecord
    | messages.SnapshotHeaderRecord
    | messages.SnapshotFooterRecord
)


def leader_change_record(change: LeaderChange) -> ControlRecord:
    return encode_control(
        ControlType.LEADER_CHANGE,
        messages.LeaderChangeMessage(
            version=0,  # Kafka declares version 1, with directory ids, but does not write it
            leader_id=change.leader_id,
            voters=[messages.LeaderChangeVoter(voter_id=voter.key.node_id) for voter in change.voters],
            granting_voters=[messages.LeaderChangeVoter(voter_id=node_id) for node_id in change.granting],
        ),
    )


def voters_records(voters: Voters) -> list[ControlRecord]:
    """The records that set the voters of the quorum."""
    return [kraft_version_record(KRAFT_VERSION), voters_record(voters)]


def kraft_version_record(level: int) -> ControlRecord:
    return encode_control(
        ControlType.KRAFT_VERSION, messages.KRaftVersionRecord(version=0, k_raft_version=level)
    )


def voters_record(voters: Voters) -> ControlRecord:
    listed = [
        messages.Voter(
            voter_id=voter.key.node_id,
            voter_directory_id=voter.key.directory_id,
            endpoints=[
                messages.Endpoint(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
                for endpoint in voter.endpoints
            ],
            k_raft_version_feature=messages.KRaftVersionFeature(
                min_supported_version=voter.kraft_versions.lowest,
                max_supported_version=voter.kraft_versions.highest,
            ),
        )
        for voter in voters
    ]
    return encode_control(ControlType.KRAFT_VOTERS, messages.VotersRecord(version=0, voters=listed))


def read_voters(record: Record) -> Voters | None:
    """The voters in a control record, or None if it has another type."""
    if read_control_type(record) is not ControlType.KRAFT_VOTERS:
        return None
    voters, _ = codec(messages.VotersRecord, 0).decode(record.value or b"")
    return Voters(
        Voter(
            ReplicaKey(voter.voter_id, voter.voter_directory_id),
            tuple(VoterEndpoint(endpoint.name, endpoint.host, endpoint.port) for endpoint in voter.endpoints),
            KRaftVersions(
                voter.k_raft_version_feature.min_supported_version,
                voter.k_raft_version_feature.max_supported_version,
            ),
        )
        for voter in voters.voters
    )


def read_kraft_version(record: Record) -> int | None:
    """The KRaft version in a control record, or None if it has another type."""
    if read_control_type(record) is not ControlType.KRAFT_VERSION:
        return None
    body, _ = codec(messages.KRaftVersionRecord, 0).decode(record.value or b"")
    return body.k_raft_version


def encode_control(control_type: ControlType, body: ControlBody) -> ControlRecord:
    return control_key(control_type), codec(type(body), body.version).encode(body)
