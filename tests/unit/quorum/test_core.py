"""Rules of the core that need no story: bad input, late messages, and what must never happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid
from penstock.quorum.core import CommittedRecordsLost, QuorumCore
from penstock.quorum.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    OffsetAndEpoch,
    Peer,
    RequestFailed,
    SnapshotId,
    VoteRequest,
    VoteResponse,
)
from penstock.quorum.ready import NOTHING, FetchedRecords, HardState, LeaderChange, QuorumTimeouts, Ready
from penstock.quorum.voters import ReplicaKey, VoterHistory, Voters
from unit.quorum.replicas import MemoryLog, endpoints, key, voter

NONE = ErrorCode.NONE


class Driver:
    """Does at once what the core asks for, and keeps what it sent."""

    def __init__(
        self,
        *,
        voters: int = 3,
        state: HardState | None = None,
        epochs: str = "",
        can_vote: bool = True,
        committed_offset: int = 0,
        now_ms: int = 0,
    ) -> None:
        """`epochs`: one digit for each record of the log."""
        members = Voters(voter(node_id) for node_id in range(1, voters + 1))
        self.log = MemoryLog(members)
        for epoch in epochs:
            self.log.append(int(epoch), f"of epoch {epoch}")
        self.now_ms = now_ms
        self.requests: list[Any] = []
        self.responses: list[Any] = []
        self.readies: list[Ready] = []
        self.core = QuorumCore(
            me=key(1),
            log=self.log,
            hard_state=state or HardState(),
            history=VoterHistory(records=self.log.voters_records()),
            random=Random(1),
            now_ms=now_ms,
            timeouts=QuorumTimeouts(),
            endpoints=endpoints(1),
            can_vote=can_vote,
            committed_offset=committed_offset,
        )
        self.core.synced(self.log.end_offset, now_ms)
        self.work()

    def work(self) -> None:
        while (ready := self.core.ready()) != NOTHING:
            self.readies.append(ready)
            if ready.hard_state is not None:
                self.core.saved(ready.hard_state, self.now_ms)
            if ready.truncate_to is not None:
                self.log.truncate(ready.truncate_to)
                self.core.truncated(ready.truncate_to, self.now_ms)
            if isinstance(ready.append, LeaderChange):
                self.log.append(ready.append.epoch, "leader")
            elif isinstance(ready.append, FetchedRecords):
                for epoch in bytes(ready.append.records):
                    self.log.append(epoch, f"of epoch {epoch}")
            if ready.append is not None:
                self.core.appended(self.log.end_offset, self.now_ms)
                self.core.synced(self.log.end_offset, self.now_ms)
            self.requests += [send.request for send in ready.requests]
            self.responses += ready.responses

    def do(self, call: Callable[..., Any], *arguments: Any) -> None:
        call(*arguments)
        self.work()

    def step(self, message: Any) -> Any:
        """The response, if there is one."""
        before = len(self.responses)
        self.do(self.core.step, message, self.now_ms)
        return self.responses[-1] if len(self.responses) > before else None

    def advance(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.do(self.core.tick, self.now_ms)

    def last(self, kind: type) -> Any:
        return next(request for request in reversed(self.requests) if isinstance(request, kind))

    def follow(self, leader_id: int = 2, epoch: int = 1) -> None:
        self.step(BeginQuorumEpochRequest(900, epoch, leader_id, key(1), endpoints(leader_id)))

    def lead(self) -> None:
        self.advance(2_000)
        for _ in range(2):
            votes = [request for request in self.requests if isinstance(request, VoteRequest)]
            self.step(VoteResponse(votes[-1].request_id, NONE, votes[-1].epoch, -1, granted=True))
        assert self.core.is_leader


def vote(epoch: int, candidate: int = 2, *, log: tuple[int, int] = (0, 0), **given: Any) -> VoteRequest:
    return VoteRequest(7, epoch, key(candidate), key(1), log[1], log[0], **given)


def test_a_vote_is_granted_once_in_an_epoch_and_again_to_the_same_candidate() -> None:
    node = Driver()

    assert node.step(vote(3, 2)).granted
    assert not node.step(vote(3, 3)).granted
    assert node.step(vote(3, 2)).granted
    assert node.core.hard_state == HardState(3, voted=key(2))


def test_a_candidate_with_a_shorter_log_is_denied_but_its_epoch_counts() -> None:
    node = Driver(state=HardState(2), epochs="122")

    assert not node.step(vote(5, log=(2, 2))).granted
    assert not node.step(vote(5, 3, log=(9, 1))).granted
    assert node.step(vote(5, 3, log=(3, 2))).granted
    assert node.core.epoch == 5


def test_a_replica_that_lost_its_state_file_does_not_vote_in_the_epoch_of_its_log() -> None:
    node = Driver(epochs="14")

    assert node.core.epoch == 4
    assert not node.step(vote(4, log=(9, 3))).granted
    assert node.step(vote(5, log=(9, 4))).granted


@pytest.mark.parametrize(
    "request_",
    [
        vote(2, log=(1, 2)),  # its last record is of the epoch in which it wants to lead
        vote(2, log=(-1, 0)),
        vote(2, log=(1, -1)),
        replace(vote(2), candidate=ReplicaKey(-1)),
        replace(vote(2), candidate=key(1)),
    ],
)
def test_an_impossible_vote_request_is_refused_and_changes_nothing(request_: VoteRequest) -> None:
    node = Driver()

    assert node.step(request_).error is ErrorCode.INVALID_REQUEST
    assert node.core.hard_state == HardState()


def test_a_vote_request_for_another_disk_is_refused_and_changes_nothing() -> None:
    node = Driver()
    old_disk = ReplicaKey(1, Uuid(b"old disk".ljust(16, b"\0")))

    assert node.step(replace(vote(2), voter=old_disk)).error is ErrorCode.INVALID_VOTER_KEY
    assert node.core.epoch == 0


def test_a_request_of_an_older_epoch_is_fenced_and_told_the_leader() -> None:
    node = Driver()
    node.follow(leader_id=2, epoch=4)

    response = node.step(vote(3, 3))

    assert (response.error, response.epoch, response.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, 4, 2)
    assert response.leader == Peer(2, "host2", 9002)


def test_a_second_leader_of_an_epoch_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    node = Driver()
    node.follow(leader_id=2, epoch=4)

    response = node.step(BeginQuorumEpochRequest(9, 4, 3, key(1), endpoints(3)))

    assert response.error is ErrorCode.INVALID_REQUEST
    assert node.core.leader_id == 2
    assert "has two leaders" in caplog.text


def test_a_broker_never_votes_nor_asks_for_votes() -> None:
    node = Driver(can_vote=False)

    assert not node.step(vote(3)).granted
    node.advance(10_000)

    assert not [request for request in node.requests if isinstance(request, VoteRequest)]


def test_a_candidate_that_loses_goes_on_although_the_setting_allows_no_backoff() -> None:
    node = Driver()
    node.core.timeouts = QuorumTimeouts(election_backoff_max_ms=0)
    node.advance(2_000)
    for granted in (True, False):  # the pre-votes, then the votes
        votes = [request for request in node.requests if isinstance(request, VoteRequest)][-2:]
        for request in votes:
            node.step(VoteResponse(request.request_id, NONE, request.epoch, -1, granted=granted))

    assert node.core.epoch == 1
    assert not node.core.is_leader
    assert node.core.next_tick_ms > node.now_ms, "the driver would spin"


def test_a_voter_that_does_not_know_pre_votes_counts_as_granting_one() -> None:
    node = Driver()
    node.advance(2_000)
    asked = node.last(VoteRequest)
    assert asked.pre_vote

    node.step(VoteResponse(asked.request_id, ErrorCode.UNSUPPORTED_VERSION, 0, -1))

    assert node.core.role_name == "candidate"


def test_an_answer_to_a_forgotten_request_is_ignored() -> None:
    node = Driver()
    node.follow(epoch=1)
    late = node.last(FetchRequest)
    node.follow(leader_id=3, epoch=2)

    node.step(FetchResponse(late.request_id, NONE, 2, 3, high_watermark=0, records=bytes([2])))

    assert node.log.end_offset == 0


def test_a_repeated_answer_is_appended_once() -> None:
    node = Driver()
    node.follow()
    answer = FetchResponse(
        node.last(FetchRequest).request_id, NONE, 1, 2, high_watermark=2, records=bytes([1, 1])
    )

    node.step(answer)
    node.step(answer)

    assert node.log.end_offset == 2
    assert node.core.high_watermark == 2
    assert node.last(FetchRequest).fetch_offset == 2


def test_a_follower_fetches_on_only_after_its_sync() -> None:
    node = Driver()
    node.follow()
    fetches = len(node.requests)
    node.core.step(
        FetchResponse(node.last(FetchRequest).request_id, NONE, 1, 2, high_watermark=1, records=bytes([1])), 0
    )
    ready = node.core.ready()
    assert isinstance(ready.append, FetchedRecords)
    node.log.append(1, "of epoch 1")

    node.do(node.core.appended, 1, 0)
    assert len(node.requests) == fetches
    assert node.core.high_watermark == 0

    node.do(node.core.synced, 1, 0)
    assert node.last(FetchRequest).fetch_offset == 1
    assert node.core.high_watermark == 1


def test_corrupt_records_are_fetched_again_after_a_backoff() -> None:
    node = Driver()
    node.follow()
    first = node.last(FetchRequest)
    node.core.step(FetchResponse(first.request_id, NONE, 1, 2, records=bytes([1])), 0)
    assert node.core.ready().append is not None

    node.do(node.core.append_failed, 0)
    assert node.last(FetchRequest) is first
    node.advance(20)

    assert node.last(FetchRequest).request_id > first.request_id


def test_no_election_starts_while_the_log_changes() -> None:
    node = Driver()
    node.follow()
    node.core.step(FetchResponse(node.last(FetchRequest).request_id, NONE, 1, 2, records=bytes([1])), 0)
    assert node.core.ready().append is not None

    node.advance(10_000)
    assert node.core.role_name == "follower"
    assert node.core.next_tick_ms > node.now_ms, "the driver would spin"

    node.log.append(1, "of epoch 1")
    node.do(node.core.appended, 1, node.now_ms)
    assert node.core.role_name == "prospective"


def test_a_leader_without_committed_records_stops_the_node() -> None:
    node = Driver()
    node.follow()
    node.step(
        FetchResponse(node.last(FetchRequest).request_id, NONE, 1, 2, high_watermark=2, records=bytes([1, 1]))
    )
    node.follow(leader_id=3, epoch=2)

    with pytest.raises(CommittedRecordsLost, match="to offset 1, but it is committed up to 2"):
        node.step(
            FetchResponse(
                node.last(FetchRequest).request_id, NONE, 2, 3, diverging_epoch=OffsetAndEpoch(1, 1)
            )
        )


def test_records_that_were_committed_before_a_restart_are_not_truncated_after_it() -> None:
    node = Driver(state=HardState(1), epochs="111", committed_offset=2)
    node.follow(leader_id=3, epoch=2)

    with pytest.raises(CommittedRecordsLost, match="to offset 1, but it is committed up to 2"):
        node.step(
            FetchResponse(
                node.last(FetchRequest).request_id, NONE, 2, 3, diverging_epoch=OffsetAndEpoch(1, 1)
            )
        )


@pytest.mark.parametrize(("committed_offset", "high_watermark"), [(0, 0), (2, 2), (3, 3), (9, 3)])
def test_the_first_high_watermark_is_that_of_the_run_before_as_far_as_the_log_reaches(
    committed_offset: int, high_watermark: int
) -> None:
    node = Driver(state=HardState(1), epochs="111", committed_offset=committed_offset)

    assert node.core.high_watermark == high_watermark
    reported = [ready.high_watermark for ready in node.readies if ready.high_watermark is not None]
    assert reported == ([high_watermark] if high_watermark else [])


def test_a_leader_whose_snapshot_lacks_committed_records_stops_the_node() -> None:
    node = Driver(state=HardState(1), epochs="111", committed_offset=3)
    node.follow(leader_id=3, epoch=3)

    with pytest.raises(CommittedRecordsLost, match="snapshot up to offset 2, but it is committed up to 3"):
        node.step(FetchResponse(node.last(FetchRequest).request_id, NONE, 3, 3, snapshot_id=SnapshotId(2, 2)))


def test_the_snapshot_of_a_deposed_leader_is_installed_if_the_log_is_behind_it() -> None:
    node = Driver(state=HardState(1), epochs="1")
    node.follow()
    wanted = SnapshotId(10, 1)
    node.step(FetchResponse(node.last(FetchRequest).request_id, NONE, 1, 2, snapshot_id=wanted))
    assert node.core.wanted_snapshot == wanted
    node.follow(leader_id=3, epoch=2)
    assert node.core.wanted_snapshot is None
    fetch_of_old_log = node.last(FetchRequest)

    assert node.core.begin_install(wanted)
    node.step(FetchResponse(fetch_of_old_log.request_id, NONE, 2, 3, diverging_epoch=OffsetAndEpoch(0, 0)))

    assert not any(ready.truncate_to for ready in node.readies), "the answer is about the old log"


@pytest.mark.parametrize("epochs", ["1111111111", "111111111111"])
def test_a_snapshot_that_is_not_needed_any_more_is_not_installed(epochs: str) -> None:
    node = Driver(state=HardState(1), epochs=epochs)
    node.follow(leader_id=3, epoch=2)

    assert not node.core.begin_install(SnapshotId(10, 1))


def test_a_leader_installs_no_snapshot() -> None:
    node = Driver()
    node.lead()

    assert not node.core.begin_install(SnapshotId(10, 1))


def test_no_election_starts_while_a_received_snapshot_is_made_durable_but_others_get_votes() -> None:
    node = Driver()
    node.follow()
    wanted = SnapshotId(10, 1)
    node.step(FetchResponse(node.last(FetchRequest).request_id, NONE, 1, 2, snapshot_id=wanted))
    node.do(node.core.snapshot_received, node.now_ms)

    node.advance(10_000)
    assert node.core.role_name == "follower"
    assert node.core.next_tick_ms > node.now_ms, "the driver would spin"
    assert node.step(vote(1, candidate=3, pre_vote=True)).granted

    node.do(node.core.snapshot_failed, node.now_ms)
    assert node.core.role_name == "prospective"


def test_a_waiting_fetch_is_answered_when_the_leader_resigns() -> None:
    node = Driver()
    node.lead()
    end_offset = node.log.end_offset
    fetch = FetchRequest(50, 1, key(2), end_offset, 1, high_watermark=0, max_wait_ms=500)
    assert node.step(fetch).high_watermark == end_offset
    assert node.step(replace(fetch, high_watermark=end_offset)) is None

    node.do(node.core.resign, node.now_ms)

    assert node.responses[-1].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_fetch_of_a_replica_answers_the_one_that_waits() -> None:
    node = Driver()
    node.lead()
    fetch = FetchRequest(50, 1, key(2), 1, 1, high_watermark=1, max_wait_ms=500)
    node.step(fetch)

    response = node.step(replace(fetch, request_id=51))

    assert (response.request_id, response.error) == (50, NONE)


def test_a_waiting_fetch_is_answered_when_its_time_is_over() -> None:
    node = Driver()
    node.lead()
    node.step(FetchRequest(50, 1, key(2), 1, 1, high_watermark=1, max_wait_ms=500))
    count = len(node.responses)

    node.advance(499)
    assert len(node.responses) == count
    node.advance(1)

    assert node.responses[-1].request_id == 50
    assert node.responses[-1].read_from == 1


def test_the_answer_of_a_deposed_leader_has_no_records() -> None:
    """Its log may be truncated before the driver reads the records."""
    node = Driver()
    node.lead()
    node.core.step(FetchRequest(50, 1, key(2), 0, 0), node.now_ms)
    node.core.step(vote(5, 3, log=(9, 4)), node.now_ms)
    node.work()

    answers = [response for response in node.responses if response.request_id == 50]
    assert [(each.error, each.read_from) for each in answers] == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_a_fetch_of_a_wiped_voter_does_not_commit() -> None:
    node = Driver()
    node.lead()
    wiped = ReplicaKey(2, Uuid(b"new disk".ljust(16, b"\0")))

    node.step(FetchRequest(50, 1, wiped, 1, 1))
    assert node.core.high_watermark == 0
    node.step(FetchRequest(51, 1, key(2), 1, 1))

    assert node.core.high_watermark == 1


def test_a_leader_resigns_without_a_quorum_and_does_not_lead_again_in_its_epoch() -> None:
    node = Driver()
    node.lead()
    node.advance(2_999)
    assert node.core.is_leader

    node.advance(1)

    assert node.core.role_name == "resigned"
    assert not node.step(vote(1, 3)).granted
    node.advance(2_000)
    assert (node.core.role_name, node.core.epoch) == ("unattached", 2)


def test_a_refused_request_is_repeated_after_the_backoff_and_not_before() -> None:
    node = Driver()
    node.advance(2_000)
    asked = node.last(VoteRequest)

    node.step(RequestFailed(asked.request_id, refused=True))
    node.advance(19)
    assert node.last(VoteRequest) is asked
    node.advance(1)

    assert node.last(VoteRequest).request_id > asked.request_id


def test_while_state_is_being_saved_nothing_else_leaves() -> None:
    node = Driver()
    node.core.step(vote(3), 0)
    assert node.core.ready() == Ready(hard_state=HardState(3, voted=key(2)))
    assert node.core.ready() == NOTHING
    node.core.step(replace(vote(4, 3), request_id=8), 0)
    assert node.core.ready() == NOTHING

    node.core.saved(HardState(3, voted=key(2)), 0)
    assert node.core.ready() == Ready(hard_state=HardState(4, voted=key(3)))
    node.core.saved(HardState(4, voted=key(3)), 0)

    answers = node.core.ready().responses
    assert [
        (each.request_id, each.epoch, each.granted) for each in answers if isinstance(each, VoteResponse)
    ] == [
        (7, 3, True),
        (8, 4, True),
    ]
