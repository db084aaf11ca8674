"""The file `quorum-state`."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.protocol.types import Uuid, parse_uuid
from penstock.quorum.ready import HardState
from penstock.quorum.state_file import BadQuorumState, QuorumStateFile
from penstock.quorum.voters import ReplicaKey
from penstock.runtime.disk import RealDisk

VOTE = HardState(7, voted=ReplicaKey(3, parse_uuid("aorhKMpQbqJ8d_2L28Vv5Q")))


def test_saved_state_is_loaded(tmp_path: Path) -> None:
    file = QuorumStateFile(RealDisk(), str(tmp_path))
    assert file.load() is None

    for state in (VOTE, HardState(7, leader_id=3)):
        file.save(state)
        assert file.load() == state


def test_the_text_is_kafkas(tmp_path: Path) -> None:
    QuorumStateFile(RealDisk(), str(tmp_path)).save(VOTE)

    assert (tmp_path / "quorum-state").read_text() == (
        '{"leaderId":-1,"leaderEpoch":7,"votedId":3,"votedDirectoryId":"aorhKMpQbqJ8d_2L28Vv5Q","data_version":1}'
    )


def test_the_file_of_a_static_kafka_quorum_is_read(tmp_path: Path) -> None:
    (tmp_path / "quorum-state").write_text(
        '{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1}],"data_version":0}'
    )

    state = QuorumStateFile(RealDisk(), str(tmp_path)).load()

    assert state == HardState(2, 1, ReplicaKey(1, Uuid(bytes(16))))


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"data_version":9}', '{"data_version":1,"votedId":"x"}']
)
def test_a_damaged_file_is_refused_and_not_guessed_at(tmp_path: Path, text: str) -> None:
    (tmp_path / "quorum-state").write_text(text)

    with pytest.raises(BadQuorumState, match="quorum-state cannot be read"):
        QuorumStateFile(RealDisk(), str(tmp_path)).load()


def test_a_static_quorum_has_version_0_as_kafka_writes_it(tmp_path: Path) -> None:
    file = QuorumStateFile(RealDisk(), str(tmp_path))

    file.save(HardState(6, leader_id=1), static_voters=[1, 2, 3])

    # What Apache Kafka 4.3.1 wrote as the second of three static voters.
    assert (tmp_path / "quorum-state").read_text() == (
        '{"clusterId":"","leaderId":1,"leaderEpoch":6,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0}'
    )
    assert file.load() == HardState(6, leader_id=1)


def test_a_vote_of_a_static_quorum_has_no_directory(tmp_path: Path) -> None:
    file = QuorumStateFile(RealDisk(), str(tmp_path))

    file.save(VOTE, static_voters=[1, 2, 3])

    assert VOTE.voted is not None
    assert file.load() == HardState(VOTE.epoch, VOTE.leader_id, ReplicaKey(VOTE.voted.node_id))
