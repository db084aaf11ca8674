"""What the core has decided and the driver has not taken yet.

Nothing leaves before the state is saved: while epoch, leader or vote differ from the state on disk, the outbox gives
out only the state. So a vote that is lost in a crash was never sent, nor counted.
"""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode
from penstock.quorum.messages import FetchResponse, LeaderAndEpoch, Peer, Request, Response, SnapshotId
from penstock.quorum.ready import NOTHING, FetchedRecords, HardState, LeaderChange, Ready, Send, VotersChange


class Outbox:
    def __init__(self, on_disk: HardState) -> None:
        self._on_disk = on_disk
        self._being_saved: HardState | None = None
        self._requests: list[Send] = []
        self._responses: list[Response] = []
        self.truncate_to: int | None = None
        self.snapshot: SnapshotId | None = None
        self.append: LeaderChange | VotersChange | FetchedRecords | None = None
        self.high_watermark: int | None = None
        self._leader = LeaderAndEpoch(on_disk.leader_id, on_disk.epoch)

    def send(self, receiver: Peer, request: Request) -> None:
        self._requests.append(Send(receiver, request))

    def respond(self, response: Response) -> None:
        self._responses.append(response)

    def take(self, state: HardState) -> Ready:
        if self._being_saved is not None:
            return NOTHING
        if state != self._on_disk:
            self._being_saved = state
            return Ready(hard_state=state)
        leader = LeaderAndEpoch(state.leader_id, state.epoch)
        leader_changed = leader != self._leader
        if not (
            self._requests
            or self._responses
            or self.append is not None
            or self.high_watermark is not None
            or leader_changed
            or self.truncate_to is not None
            or self.snapshot is not None
        ):
            return NOTHING
        ready = Ready(
            truncate_to=self.truncate_to,
            snapshot=self.snapshot,
            append=self.append,
            requests=tuple(self._requests),
            responses=tuple(self._responses),
            high_watermark=self.high_watermark,
            leader=leader if leader_changed else None,
        )
        self._requests.clear()
        self._responses.clear()
        self.truncate_to = self.snapshot = self.append = self.high_watermark = None
        self._leader = leader
        return ready

    def saved(self, state: HardState) -> None:
        assert state == self._being_saved, "saved something else than the core asked for"
        self._on_disk = state
        self._being_saved = None

    def drop_role(self, state: HardState) -> None:
        """The role changed: its requests and its work on the log are void. Every request still gets a response, but
        one that promised records of this log does not keep that promise."""
        self._requests.clear()
        self.truncate_to = self.snapshot = self.append = None
        self._responses = [
            FetchResponse(answer.request_id, ErrorCode.NOT_LEADER_OR_FOLLOWER, state.epoch, state.leader_id)
            if isinstance(answer, FetchResponse) and answer.error is ErrorCode.NONE
            else answer
            for answer in self._responses
        ]
