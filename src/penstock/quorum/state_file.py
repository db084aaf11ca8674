"""The file `quorum-state`: epoch, leader and vote, in Kafka's JSON.

Version 1 is written (KIP-853, votes carry a directory id); version 0, which Kafka writes for a quorum that
is fixed by its settings, is read too. A file that does not read as either is refused: to guess here could
give a second vote in one epoch.
"""

from __future__ import annotations

import json

from penstock.protocol.types import ZERO_UUID, parse_uuid, uuid_text
from penstock.quorum.core import NO_NODE, HardState
from penstock.quorum.voters import ReplicaKey
from penstock.runtime.disk import Disk

FILE_NAME = "quorum-state"
VERSION = 1


class BadQuorumState(Exception):
    """The file is damaged, or was written by newer software."""


class QuorumStateFile:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{FILE_NAME}"

    def load(self) -> HardState | None:
        """What was saved last, or None where nothing ever was."""
        if not self._disk.exists(self._path):
            return None
        try:
            return decode_state(self._disk.read_file(self._path))
        except (ValueError, KeyError, TypeError) as exc:
            raise BadQuorumState(f"{self._path} can not be read: {exc}") from exc

    def save(self, state: HardState) -> None:
        """Returns when a power cut can not undo it. Blocks: run it in a worker."""
        self._disk.write_file(self._path, encode_state(state))


def encode_state(state: HardState) -> bytes:
    voted_id, voted_directory = state.voted or (NO_NODE, ZERO_UUID)
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
        raise ValueError(f"version {version} is not known")
    voted = None
    if fields["votedId"] != NO_NODE:
        directory = parse_uuid(fields["votedDirectoryId"]) if version >= 1 else ZERO_UUID
        voted = ReplicaKey(int(fields["votedId"]), directory)
    return HardState(int(fields["leaderEpoch"]), int(fields["leaderId"]), voted)
