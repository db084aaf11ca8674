"""A classic member, step by step, on a clock that the test moves."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from penstock.client import errors
from penstock.client.cluster import Cluster, Node, PartitionInfo, Topic, TopicPartition
from penstock.client.group.assignors import Assignor, GroupToAssign, Share, assignors_of
from penstock.client.group.assignors.wire import read_subscription, write_assignment, write_subscription
from penstock.client.group.classic import ClassicMembership, ClassicSettings, leave_by_one
from penstock.client.group.membership import LearnTopics, Send, Standing
from penstock.client.group.nouns import Assigned, Lost, Revoked, Subscription
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def cluster_of(**topics: int) -> Cluster:
    return Cluster(
        nodes={1: Node(1, "host", 9092)},
        topics={
            name: Topic(name, partitions=tuple(PartitionInfo(index, 1, 0, (1,)) for index in range(count)))
            for name, count in topics.items()
        },
    )


def partitions(topic: str, *indexes: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, index) for index in indexes)


class Stage:
    """One member, its clock, and the coordinator's lines spoken by the test."""

    def __init__(self, strategy: object = "range", *, instance_id: str | None = None, **topics: int) -> None:
        self.now_ms = 1_000
        self.cluster = cluster_of(**(topics or {"orders": 4}))
        settings = ClassicSettings(
            group_id="billing",
            instance_id=instance_id,
            assignors=assignors_of(strategy),
            session_timeout_ms=10_000,
            heartbeat_interval_ms=3_000,
            poll_interval_ms=60_000,
        )
        self.member = ClassicMembership(settings, now_ms=self.now_ms)
        self.sent: Send | None = None
        self.generation = 0

    def subscribe(self, *topics: str, pattern: re.Pattern[str] | None = None) -> None:
        self.member.subscribe(Subscription(frozenset(topics), pattern), self.now_ms)

    def next_request(self) -> Any:
        """What the member sends now; what it wants to learn on the way it learns."""
        while isinstance(action := self.member.next_action(self.now_ms), LearnTopics):
            self.member.learned(self.cluster, self.now_ms)
        self.sent = action
        return action.request if action is not None else None

    def answer(self, response: Any) -> None:
        assert self.sent is not None
        self.member.answered(self.sent, response, self.now_ms)

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def join(self, *, leads: bool = True, members: dict[str, bytes] | None = None) -> None:
        request = self.next_request()
        assert isinstance(request, JoinGroupRequest)
        self.generation += 1
        metadata = request.protocols[0].metadata
        everyone = {"me": metadata, **(members or {})}
        self.answer(
            JoinGroupResponse(
                generation_id=self.generation,
                protocol_type="consumer",
                protocol_name=request.protocols[0].name,
                leader="me" if leads else "other",
                member_id="me",
                members=[
                    JoinGroupResponseMember(member_id=member_id, metadata=data)
                    for member_id, data in (everyone.items() if leads else ())
                ],
            )
        )

    def sync(self, *given: TopicPartition) -> SyncGroupRequest:
        request = self.next_request()
        assert isinstance(request, SyncGroupRequest)
        self.answer(SyncGroupResponse(assignment=write_assignment(Share(given))))
        return request

    def heartbeat(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.wait(3_000)
        assert isinstance(self.next_request(), HeartbeatRequest)
        self.answer(HeartbeatResponse(error_code=error))

    def take_event(self) -> Any:
        event = self.member.next_event()
        if event is not None:
            self.member.acknowledge(event, self.now_ms)
        return event

    def settle(self, *given: TopicPartition) -> None:
        """Subscribed, in a generation, and the application has what it was given."""
        self.subscribe("orders")
        self.join(leads=False)
        self.sync(*given)
        event = self.take_event()
        assert isinstance(event, Assigned)
        assert event.partitions == given


MINE = partitions("orders", 0, 1)


def test_a_new_member_joins_with_the_id_that_it_is_given() -> None:
    stage = Stage()
    stage.subscribe("orders")
    assert stage.next_request().member_id == ""

    stage.answer(
        JoinGroupResponse(
            error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me", leader="", protocol_name=None, members=[]
        )
    )

    again = stage.next_request()
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "me"


def test_the_leader_assigns_to_everyone() -> None:
    stage = Stage("range", orders=3)
    stage.subscribe("orders")
    stage.join(members={"other": write_subscription(["orders"])})

    request = stage.sync(*MINE)

    assert [each.member_id for each in request.assignments] == ["me", "other"]
    assert request.assignments[0].assignment == write_assignment(Share(partitions("orders", 0, 1)))
    assert request.assignments[1].assignment == write_assignment(Share(partitions("orders", 2)))


def test_an_assignor_of_the_application_is_asked_and_its_error_reported() -> None:
    class Broken(Assignor):
        name = "broken"

        def assign(self, group: GroupToAssign) -> dict[str, Share]:
            raise LookupError("no idea")

    stage = Stage(Broken())
    stage.subscribe("orders")
    stage.join()

    assert stage.next_request() is None
    assert isinstance(stage.member.failure, LookupError)


def test_several_assignors_are_offered_in_order_and_the_chosen_one_is_used() -> None:
    stage = Stage(["range", "roundrobin"])
    stage.subscribe("orders")
    request = stage.next_request()
    assert [each.name for each in request.protocols] == ["range", "roundrobin"]

    stage.answer(
        JoinGroupResponse(
            generation_id=1,
            protocol_name="roundrobin",
            leader="me",
            member_id="me",
            members=[
                JoinGroupResponseMember(member_id=name, metadata=write_subscription(["orders"]))
                for name in ("me", "other")
            ],
        )
    )

    assert stage.sync().assignments[0].assignment == write_assignment(Share(partitions("orders", 0, 2)))


def test_a_protocol_that_was_never_offered_ends_the_membership() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.next_request()

    stage.answer(
        JoinGroupResponse(generation_id=1, protocol_name="x", leader="me", member_id="me", members=[])
    )

    assert isinstance(stage.member.failure, errors.InconsistentGroupProtocol)


def test_heartbeats_go_out_at_their_interval() -> None:
    stage = Stage()
    stage.settle(*MINE)

    assert stage.next_request() is None
    assert stage.member.wake_at_ms(stage.now_ms) == stage.now_ms + 3_000
    stage.heartbeat()
    assert stage.next_request() is None
    assert stage.member.metadata == ("billing", 1, "me", None)


def test_an_eager_member_lets_go_of_everything_before_it_joins_again() -> None:
    stage = Stage()
    stage.settle(*MINE)
    stage.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)

    assert stage.next_request() is None, "the application has not let go"
    assert stage.member.standing is Standing.MEMBER, "so it can still commit"
    event = stage.member.next_event()
    assert isinstance(event, Revoked)
    assert event.partitions == MINE
    assert stage.next_request() is None, "it was told, and has not acknowledged"
    stage.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    stage.member.acknowledge(event, stage.now_ms)

    assert isinstance(stage.next_request(), JoinGroupRequest)
    assert stage.member.standing is Standing.REBALANCING


def test_an_application_that_had_nothing_is_not_waited_for() -> None:
    stage = Stage()
    stage.settle()
    stage.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)

    assert isinstance(stage.next_request(), JoinGroupRequest)


def test_an_assignment_that_was_never_taken_is_not_revoked() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.join(leads=False)
    stage.sync(*MINE)
    stage.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)

    stage.join(leads=False)
    stage.sync(*partitions("orders", 3))

    event = stage.take_event()
    assert isinstance(event, Assigned)
    assert event.partitions == partitions("orders", 3)


def test_a_cooperative_member_keeps_reading_and_says_what_it_has() -> None:
    stage = Stage("cooperative-sticky")
    stage.settle(*MINE)
    stage.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)

    request = stage.next_request()

    assert isinstance(request, JoinGroupRequest)
    said = read_subscription(request.protocols[0].metadata, member_id="me")
    assert (said.owned, said.generation) == (MINE, 1)
    assert stage.member.next_event() is None
    assert stage.member.holdings.held == frozenset(MINE)


def test_a_cooperative_member_lets_go_of_what_was_taken_and_joins_once_more() -> None:
    stage = Stage("cooperative-sticky")
    stage.settle(*MINE)
    stage.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    stage.join(leads=False)
    stage.sync(MINE[0])

    assert stage.next_request() is None
    revoked = stage.take_event()
    assert isinstance(revoked, Revoked)
    assert revoked.partitions == (MINE[1],)
    request = stage.next_request()
    assert isinstance(request, JoinGroupRequest)
    assert read_subscription(request.protocols[0].metadata, member_id="me").owned == (MINE[0],)


def test_a_cooperative_member_tells_that_a_rebalance_changed_nothing() -> None:
    stage = Stage("cooperative-sticky")
    stage.settle(*MINE)
    stage.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    stage.join(leads=False)
    stage.sync(*MINE)

    event = stage.take_event()
    assert isinstance(event, Assigned)
    assert event.partitions == ()
    assert stage.next_request() is None


def test_a_cooperative_member_gives_up_topics_that_it_does_not_want_any_more() -> None:
    stage = Stage("cooperative-sticky", orders=2, payments=2)
    stage.subscribe("orders", "payments")
    stage.join(leads=False)
    stage.sync(*MINE, *partitions("payments", 0))
    stage.take_event()

    stage.subscribe("payments")

    assert stage.next_request() is None
    assert stage.take_event().partitions == MINE
    request = stage.next_request()
    assert read_subscription(request.protocols[0].metadata, member_id="me").topics == ("payments",)


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_that_was_put_out_loses_everything_and_joins_anew(error: ErrorCode) -> None:
    stage = Stage("cooperative-sticky")
    stage.settle(*MINE)
    stage.heartbeat(error)

    assert stage.next_request() is None, "the application does not know yet"
    assert stage.member.standing is Standing.OUT
    lost = stage.take_event()
    assert isinstance(lost, Lost)
    assert lost.partitions == MINE
    assert error.name in lost.reason
    assert stage.member.metadata == ("billing", 1, "me", None), "by which a transaction of its is refused"
    request = stage.next_request()
    assert request.member_id == ("" if error is ErrorCode.UNKNOWN_MEMBER_ID else "me")
    said = read_subscription(request.protocols[0].metadata, member_id="me")
    assert (said.owned, said.generation) == ((), -1)


def test_a_member_put_out_while_the_application_takes_an_assignment_loses_that_too() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.join(leads=False)
    stage.sync(*MINE)
    assigned = stage.member.next_event()
    stage.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)

    assert stage.member.next_event() is assigned
    stage.take_event()
    lost = stage.take_event()

    assert isinstance(lost, Lost)
    assert lost.partitions == MINE


def test_a_commit_that_was_refused_puts_the_member_out() -> None:
    stage = Stage()
    stage.settle(*MINE)

    stage.member.put_out(ErrorCode.ILLEGAL_GENERATION, stage.now_ms)

    assert isinstance(stage.take_event(), Lost)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_SESSION_TIMEOUT,
    ],
)
def test_what_waiting_does_not_cure_ends_the_membership(error: ErrorCode) -> None:
    stage = Stage(instance_id="first")
    stage.subscribe("orders")
    stage.next_request()

    stage.answer(JoinGroupResponse(error_code=error, leader="", protocol_name=None, member_id="", members=[]))

    assert isinstance(stage.member.failure, errors.BrokerError)
    assert stage.member.failure.code is error
    assert stage.next_request() is None
    assert stage.member.wake_at_ms(stage.now_ms) is None


def test_a_fenced_static_member_loses_what_it_has_and_stops() -> None:
    stage = Stage(instance_id="first")
    stage.settle(*MINE)
    stage.heartbeat(ErrorCode.FENCED_INSTANCE_ID)

    assert isinstance(stage.take_event(), Lost)
    assert isinstance(stage.member.failure, errors.FencedInstanceId)
    stage.wait(100_000)
    assert stage.next_request() is None


@pytest.mark.parametrize(
    ("error", "is_moved"),
    [
        (ErrorCode.NOT_COORDINATOR, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
    ],
)
def test_a_coordinator_that_moves_or_loads_is_tried_again_with_backoff(
    error: ErrorCode, is_moved: bool
) -> None:
    stage = Stage()
    stage.settle(*MINE)
    stage.heartbeat(error)

    assert stage.member.coordinator_is_lost is is_moved
    assert stage.next_request() is None
    stage.wait(200)
    assert isinstance(stage.next_request(), HeartbeatRequest)
    stage.answer(HeartbeatResponse())
    assert stage.member.next_event() is None, "nothing is lost by that"


def test_backoff_grows_while_nobody_answers() -> None:
    stage = Stage()
    stage.settle(*MINE)
    waits = []
    stage.wait(3_000)
    for _ in range(6):
        assert stage.next_request() is not None
        assert stage.sent is not None
        stage.member.failed(stage.sent, errors.Disconnected(), stage.now_ms)
        wake_at_ms = stage.member.wake_at_ms(stage.now_ms)
        assert wake_at_ms is not None
        waits.append(wake_at_ms - stage.now_ms)
        stage.now_ms = wake_at_ms

    assert waits[0] < 130
    assert waits[-1] >= 800


def test_a_session_that_hears_nothing_looks_for_the_coordinator_anew() -> None:
    stage = Stage()
    stage.settle(*MINE)
    stage.wait(3_000)
    stage.next_request()
    stage.wait(10_001)
    assert stage.sent is not None
    stage.member.failed(stage.sent, errors.TimedOut(), stage.now_ms)
    stage.member.coordinator_is_lost = False
    stage.wait(1_000)

    assert isinstance(stage.next_request(), HeartbeatRequest)

    assert stage.member.coordinator_is_lost
    assert stage.member.next_event() is None, "only a coordinator can put a member out"


@pytest.mark.parametrize("what", [JoinGroupRequest, SyncGroupRequest])
def test_a_join_or_sync_without_an_answer_is_joined_again(what: type) -> None:
    stage = Stage()
    stage.subscribe("orders")
    if what is SyncGroupRequest:
        stage.join(leads=False)
    assert isinstance(stage.next_request(), what)
    assert stage.sent is not None

    stage.member.failed(stage.sent, errors.Disconnected(), stage.now_ms)
    stage.wait(1_000)

    assert isinstance(stage.next_request(), JoinGroupRequest)


def test_a_rebalance_before_the_sync_is_joined_again() -> None:
    stage = Stage()
    stage.subscribe("orders")
    stage.join(leads=False)
    assert isinstance(stage.next_request(), SyncGroupRequest)

    stage.answer(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, assignment=b""))

    assert isinstance(stage.next_request(), JoinGroupRequest)


def test_a_member_that_does_not_poll_leaves_and_says_so_and_comes_back_with_the_next_poll(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    stage.settle(*MINE)
    assert stage.member.wake_at_ms(stage.now_ms) is not None
    stage.wait(60_001)

    leave = stage.next_request()
    assert isinstance(leave, LeaveGroupRequest)
    assert leave.members[0].member_id == "me"
    assert "max.poll.interval.ms" in (leave.members[0].reason or "")
    assert "max.poll.interval.ms" in caplog.text
    stage.answer(LeaveGroupResponse())
    assert stage.next_request() is None
    assert stage.member.wake_at_ms(stage.now_ms) is None

    stage.member.note_poll(stage.now_ms)
    assert isinstance(stage.take_event(), Lost)
    assert isinstance(stage.next_request(), JoinGroupRequest)


def test_the_leader_does_not_mind_a_broker_that_is_away_for_a_while() -> None:
    stage = Stage("cooperative-sticky", orders=2)
    stage.cluster = replace(stage.cluster, nodes={1: Node(1, "host", 9092, rack="east")})
    stage.subscribe("orders")
    stage.join()
    stage.sync(*MINE)
    stage.take_event()

    stage.member.cluster_changed(replace(stage.cluster, nodes={}), stage.now_ms)

    assert stage.next_request() is None


def test_the_leader_notices_topics_that_are_gone() -> None:
    stage = Stage("cooperative-sticky", orders=2)
    stage.subscribe("orders")
    stage.join()
    stage.sync(*MINE)
    stage.take_event()
    gone = replace(stage.cluster.topics["orders"], error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    stage.cluster = replace(stage.cluster, topics={"orders": gone})
    stage.member.cluster_changed(stage.cluster, stage.now_ms)

    stage.join()
    assert stage.sync().assignments[0].assignment == write_assignment(Share())
    stage.member.cluster_changed(stage.cluster, stage.now_ms)
    assert isinstance(stage.take_event(), Revoked)


def test_a_commit_of_a_fenced_static_member_ends_the_membership() -> None:
    stage = Stage(instance_id="first")
    stage.settle(*MINE)

    stage.member.put_out(ErrorCode.FENCED_INSTANCE_ID, stage.now_ms)

    assert isinstance(stage.take_event(), Lost)
    assert isinstance(stage.member.failure, errors.FencedInstanceId)


@pytest.mark.parametrize("instance_id", [None, "first"])
def test_a_member_that_left_without_an_answer_can_join_again(instance_id: str | None) -> None:
    stage = Stage(instance_id=instance_id)
    stage.settle()
    stage.wait(3_000)
    assert isinstance(stage.next_request(), HeartbeatRequest), "and nobody will tell what came of it"

    stage.member.leave("unsubscribed", stage.now_ms)
    if not stage.member.has_left:
        assert isinstance(stage.next_request(), LeaveGroupRequest)
    stage.member.give_up_goodbye(stage.now_ms)
    stage.subscribe()
    stage.subscribe("orders")

    assert isinstance(stage.next_request(), JoinGroupRequest)


def test_a_static_member_that_does_not_poll_falls_silent_and_keeps_its_place() -> None:
    stage = Stage(instance_id="first")
    stage.settle(*MINE)
    stage.wait(60_001)

    assert stage.next_request() is None
    assert stage.member.standing is Standing.OUT
    stage.member.note_poll(stage.now_ms)
    assert isinstance(stage.take_event(), Lost)
    request = stage.next_request()
    assert isinstance(request, JoinGroupRequest)
    assert request.group_instance_id == "first"


def test_leaving_says_why_and_is_over_with_the_answer() -> None:
    stage = Stage()
    stage.settle(*MINE)
    stage.member.holdings.withdraw()
    stage.take_event()

    stage.member.leave("closed", stage.now_ms)

    assert not stage.member.has_left
    request = stage.next_request()
    assert (request.members[0].member_id, request.members[0].reason) == ("me", "closed")
    stage.answer(LeaveGroupResponse())
    assert stage.member.has_left
    assert stage.member.next_event() is None
    assert leave_by_one(request).member_id == "me"


def test_a_static_member_leaves_without_a_word_unless_it_is_for_good() -> None:
    stage = Stage(instance_id="first")
    stage.settle()
    stage.member.leave("closed", stage.now_ms)
    assert stage.member.has_left

    stage = Stage(instance_id="first")
    stage.settle()
    stage.member.leave("closed", stage.now_ms, for_good=True)
    assert stage.next_request().members[0].group_instance_id == "first"


def test_leaving_does_not_wait_for_a_join_that_is_under_way() -> None:
    stage = Stage()
    stage.settle()
    stage.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(stage.next_request(), JoinGroupRequest)

    stage.member.leave("closed", stage.now_ms)

    assert isinstance(stage.next_request(), LeaveGroupRequest)


def test_the_leader_notices_partitions_that_were_added() -> None:
    stage = Stage("cooperative-sticky", orders=2)
    stage.subscribe("orders")
    stage.join()
    stage.sync(*MINE)
    stage.take_event()
    stage.member.cluster_changed(cluster_of(orders=2), stage.now_ms)
    assert stage.next_request() is None

    stage.member.cluster_changed(cluster_of(orders=3), stage.now_ms)

    assert isinstance(stage.next_request(), JoinGroupRequest)


def test_the_leader_notices_topics_that_only_others_want() -> None:
    stage = Stage(orders=2)
    stage.subscribe("orders")
    stage.join(members={"other": write_subscription(["payments"])})
    stage.sync()
    stage.take_event()
    assert stage.member.topics_wanted == {"orders", "payments"}

    stage.member.cluster_changed(cluster_of(orders=2, payments=1), stage.now_ms)

    assert isinstance(stage.next_request(), JoinGroupRequest)


def test_a_leader_that_may_not_assign_keeps_watch_all_the_same() -> None:
    stage = Stage(instance_id="first", orders=2)
    stage.subscribe("orders")
    request = stage.next_request()
    stage.answer(
        JoinGroupResponse(
            generation_id=4,
            protocol_name="range",
            leader="me",
            member_id="me",
            skip_assignment=True,
            members=[JoinGroupResponseMember(member_id="me", metadata=request.protocols[0].metadata)],
        )
    )
    stage.member.cluster_changed(cluster_of(orders=2), stage.now_ms)
    assert stage.sync(*MINE).assignments == []
    stage.take_event()
    assert stage.next_request() is None

    stage.member.cluster_changed(cluster_of(orders=3), stage.now_ms)

    assert stage.next_request() is None
    assert isinstance(stage.take_event(), Revoked)
    assert isinstance(stage.next_request(), JoinGroupRequest)


def test_a_pattern_subscribes_to_what_matches_whole_names_and_notices_new_topics() -> None:
    stage = Stage("cooperative-sticky", orders_a=1, orders_b=1, unordered=1)
    stage.subscribe(pattern=re.compile("orders_.*"))
    assert stage.member.topics_wanted is None
    request = stage.next_request()
    said = read_subscription(request.protocols[0].metadata, member_id="me")
    assert said.topics == ("orders_a", "orders_b")
    stage.answer(
        JoinGroupResponse(
            generation_id=1, protocol_name="cooperative-sticky", leader="other", member_id="me", members=[]
        )
    )
    stage.sync(*partitions("orders_a", 0))
    stage.take_event()
    assert stage.next_request() is None

    stage.cluster = cluster_of(orders_a=1, orders_b=1, orders_c=1)
    stage.member.cluster_changed(stage.cluster, stage.now_ms)

    again = stage.next_request()
    assert isinstance(again, JoinGroupRequest)
    assert "orders_c" in read_subscription(again.protocols[0].metadata, member_id="me").topics


@pytest.mark.parametrize("is_syncing", [False, True])
def test_a_subscription_that_changed_in_the_middle_of_a_rebalance_is_not_forgotten(is_syncing: bool) -> None:
    stage = Stage("cooperative-sticky", orders=2, payments=2)
    stage.subscribe("orders")
    request = stage.next_request()
    assert isinstance(request, JoinGroupRequest)
    if not is_syncing:
        stage.subscribe("orders", "payments")
    stage.answer(
        JoinGroupResponse(
            generation_id=1, protocol_name="cooperative-sticky", leader="other", member_id="me", members=[]
        )
    )
    assert isinstance(stage.next_request(), SyncGroupRequest)
    if is_syncing:
        stage.subscribe("orders", "payments")
    stage.answer(SyncGroupResponse(assignment=write_assignment(Share(MINE))))

    again = stage.next_request()

    assert isinstance(again, JoinGroupRequest)
    assert read_subscription(again.protocols[0].metadata, member_id="me").topics == ("orders", "payments")


def test_an_answer_that_comes_too_late_is_not_listened_to() -> None:
    stage = Stage()
    stage.settle(*MINE)
    stage.wait(3_000)
    stage.next_request()
    old = stage.sent
    assert old is not None
    stage.member.holdings.withdraw()
    stage.take_event()
    stage.member.leave("closed", stage.now_ms)

    stage.member.answered(old, HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID), stage.now_ms)

    assert stage.member.failure is None
