"""The file `quorum-state`: epoch, leader and vote, in Kafka's JSON.

As Kafka, version 0 is written for a static quorum, and version 1 (KIP-853: votes with a directory id) if the voters are
in the log. Both can be read always. An unreadable file is an error: guessing could cast a second vote in one epoch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from penstock.protocol.types import ZERO_UUID, parse_uuid, uuid_text
from penstock.quorum.messages import NO_NODE
from penstock.quorum.ready import HardState
from penstock.quorum.voters import ReplicaKey
from penstock.runtime.disk import Disk

FILE_NAME = "quorum-state"
VERSION = 1


class BadQuorumState(Exception):
    """The file is corrupt, or newer software wrote it."""


class QuorumStateFile:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{FILE_NAME}"

    def load(self) -> HardState | None:
        """The saved state, or None if there is no file."""
        if not self._disk.exists(self._path):
            return None
        try:
            return decode_state(self._disk.read_file(self._path))
        except (ValueError, KeyError, TypeError) as exc:
            raise BadQuorumState(f"{self._path} cannot be read: {exc}") from exc

    def save(self, state: HardState, *, static_voters: Iterable[int] | None = None) -> None:
        """Returns when the state is durable. Blocks: run it in a worker. `static_voters`: the ids of the voters of a
        static quorum."""
        self._disk.write_file(self._path, encode_state(state, static_voters=static_voters))


def encode_state(state: HardState, *, static_voters: Iterable[int] | None = None) -> bytes:
    voted_id, voted_directory = state.voted or (NO_NODE, ZERO_UUID)
    if static_voters is not None:
        static: dict[str, Any] = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": node_id} for node_id in static_voters],
            "data_version": 0,
        }
        return json.dumps(static, separators=(",", ":")).encode()
    fields = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": voted_id,
        "votedDirectoryId": uuid_text(voted_directory),
        "data_version": VERSION,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_state(data: bytes) -> HardState:
    fields = json.loads(data)
    version = fields["data_version"]
    if version not in (0, VERSION):
        raise ValueError(f"unknown version {version}")
    voted = None
    if fields["votedId"] != NO_NODE:
        directory = parse_uuid(fields["votedDirectoryId"]) if version >= 1 else ZERO_UUID
        voted = ReplicaKey(int(fields["votedId"]), directory)
    return HardState(int(fields["leaderEpoch"]), int(fields["leaderId"]), voted)
