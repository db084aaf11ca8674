"""A classic member, step by step, on a clock that the test moves."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from penstock.client import errors
from penstock.client.cluster import Cluster, Node, PartitionInfo, Topic, TopicPartition
from penstock.client.group.assignors import Assignor, GroupSubscription, MemberAssignment, assignors_of
from penstock.client.group.assignors.wire import read_subscription, write_assignment, write_subscription
from penstock.client.group.classic import ClassicMembership, ClassicSettings, leave_by_one
from penstock.client.group.membership import MemberStatus, RefreshMetadata, Send
from penstock.client.group.types import Assigned, Lost, Revoked, Subscription
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


class MemberDriver:
    """One member and its clock; the test plays the coordinator."""

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
        """The next request of the member; metadata refreshes on the way are served."""
        while isinstance(action := self.member.next_action(self.now_ms), RefreshMetadata):
            self.member.metadata_refreshed(self.cluster, self.now_ms)
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
        self.answer(SyncGroupResponse(assignment=write_assignment(MemberAssignment(given))))
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
        """Subscribed and in a generation; the application has its partitions."""
        self.subscribe("orders")
        self.join(leads=False)
        self.sync(*given)
        event = self.take_event()
        assert isinstance(event, Assigned)
        assert event.partitions == given


MINE = partitions("orders", 0, 1)


def test_a_new_member_joins_with_the_id_from_the_broker() -> None:
    driver = MemberDriver()
    driver.subscribe("orders")
    assert driver.next_request().member_id == ""

    driver.answer(
        JoinGroupResponse(
            error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me", leader="", protocol_name=None, members=[]
        )
    )

    again = driver.next_request()
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "me"


def test_the_leader_assigns_to_everyone() -> None:
    driver = MemberDriver("range", orders=3)
    driver.subscribe("orders")
    driver.join(members={"other": write_subscription(["orders"])})

    request = driver.sync(*MINE)

    assert [each.member_id for each in request.assignments] == ["me", "other"]
    assert request.assignments[0].assignment == write_assignment(MemberAssignment(partitions("orders", 0, 1)))
    assert request.assignments[1].assignment == write_assignment(MemberAssignment(partitions("orders", 2)))


def test_an_error_in_the_applications_assignor_is_reported() -> None:
    class Broken(Assignor):
        name = "broken"

        def assign(self, group: GroupSubscription) -> dict[str, MemberAssignment]:
            raise LookupError("no idea")

    driver = MemberDriver(Broken())
    driver.subscribe("orders")
    driver.join()

    assert driver.next_request() is None
    assert isinstance(driver.member.failure, LookupError)


def test_the_group_chooses_one_of_several_assignors() -> None:
    driver = MemberDriver(["range", "roundrobin"])
    driver.subscribe("orders")
    request = driver.next_request()
    assert [each.name for each in request.protocols] == ["range", "roundrobin"]

    driver.answer(
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

    assert driver.sync().assignments[0].assignment == write_assignment(
        MemberAssignment(partitions("orders", 0, 2))
    )


def test_an_assignor_that_was_not_offered_ends_the_membership() -> None:
    driver = MemberDriver()
    driver.subscribe("orders")
    driver.next_request()

    driver.answer(
        JoinGroupResponse(generation_id=1, protocol_name="x", leader="me", member_id="me", members=[])
    )

    assert isinstance(driver.member.failure, errors.InconsistentGroupProtocol)


def test_heartbeats_are_sent_at_their_interval() -> None:
    driver = MemberDriver()
    driver.settle(*MINE)

    assert driver.next_request() is None
    assert driver.member.wake_at_ms(driver.now_ms) == driver.now_ms + 3_000
    driver.heartbeat()
    assert driver.next_request() is None
    assert driver.member.metadata == ("billing", 1, "me", None)


def test_an_eager_member_revokes_everything_before_it_rejoins() -> None:
    driver = MemberDriver()
    driver.settle(*MINE)
    driver.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)

    assert driver.next_request() is None, "the application has not let go"
    assert driver.member.status is MemberStatus.MEMBER, "so it can still commit"
    event = driver.member.next_event()
    assert isinstance(event, Revoked)
    assert event.partitions == MINE
    assert driver.next_request() is None, "it was told, and has not acknowledged"
    driver.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.member.acknowledge(event, driver.now_ms)

    assert isinstance(driver.next_request(), JoinGroupRequest)
    assert driver.member.status is MemberStatus.REBALANCING


def test_an_application_without_partitions_is_not_waited_for() -> None:
    driver = MemberDriver()
    driver.settle()
    driver.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)

    assert isinstance(driver.next_request(), JoinGroupRequest)


def test_an_assignment_that_was_not_taken_is_not_revoked() -> None:
    driver = MemberDriver()
    driver.subscribe("orders")
    driver.join(leads=False)
    driver.sync(*MINE)
    driver.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)

    driver.join(leads=False)
    driver.sync(*partitions("orders", 3))

    event = driver.take_event()
    assert isinstance(event, Assigned)
    assert event.partitions == partitions("orders", 3)


def test_a_cooperative_member_keeps_reading_and_reports_its_partitions() -> None:
    driver = MemberDriver("cooperative-sticky")
    driver.settle(*MINE)
    driver.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)

    request = driver.next_request()

    assert isinstance(request, JoinGroupRequest)
    reported = read_subscription(request.protocols[0].metadata, member_id="me")
    assert (reported.owned, reported.generation) == (MINE, 1)
    assert driver.member.next_event() is None
    assert driver.member.reconciliation.owned == frozenset(MINE)


def test_a_cooperative_member_revokes_and_rejoins() -> None:
    driver = MemberDriver("cooperative-sticky")
    driver.settle(*MINE)
    driver.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.join(leads=False)
    driver.sync(MINE[0])

    assert driver.next_request() is None
    revoked = driver.take_event()
    assert isinstance(revoked, Revoked)
    assert revoked.partitions == (MINE[1],)
    request = driver.next_request()
    assert isinstance(request, JoinGroupRequest)
    assert read_subscription(request.protocols[0].metadata, member_id="me").owned == (MINE[0],)


def test_a_cooperative_member_reports_a_rebalance_without_changes() -> None:
    driver = MemberDriver("cooperative-sticky")
    driver.settle(*MINE)
    driver.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.join(leads=False)
    driver.sync(*MINE)

    event = driver.take_event()
    assert isinstance(event, Assigned)
    assert event.partitions == ()
    assert driver.next_request() is None


def test_a_cooperative_member_revokes_unsubscribed_topics() -> None:
    driver = MemberDriver("cooperative-sticky", orders=2, payments=2)
    driver.subscribe("orders", "payments")
    driver.join(leads=False)
    driver.sync(*MINE, *partitions("payments", 0))
    driver.take_event()

    driver.subscribe("payments")

    assert driver.next_request() is None
    assert driver.take_event().partitions == MINE
    request = driver.next_request()
    assert read_subscription(request.protocols[0].metadata, member_id="me").topics == ("payments",)


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_removed_member_loses_everything_and_rejoins(error: ErrorCode) -> None:
    driver = MemberDriver("cooperative-sticky")
    driver.settle(*MINE)
    driver.heartbeat(error)

    assert driver.next_request() is None, "the application does not know yet"
    assert driver.member.status is MemberStatus.NOT_MEMBER
    lost = driver.take_event()
    assert isinstance(lost, Lost)
    assert lost.partitions == MINE
    assert error.name in lost.reason
    assert driver.member.metadata == ("billing", 1, "me", None), "by which a transaction of its is refused"
    request = driver.next_request()
    assert request.member_id == ("" if error is ErrorCode.UNKNOWN_MEMBER_ID else "me")
    reported = read_subscription(request.protocols[0].metadata, member_id="me")
    assert (reported.owned, reported.generation) == ((), -1)


def test_a_member_removed_during_an_assignment_event_loses_that_too() -> None:
    driver = MemberDriver()
    driver.subscribe("orders")
    driver.join(leads=False)
    driver.sync(*MINE)
    assigned = driver.member.next_event()
    driver.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)

    assert driver.member.next_event() is assigned
    driver.take_event()
    lost = driver.take_event()

    assert isinstance(lost, Lost)
    assert lost.partitions == MINE


def test_a_rejected_commit_fences_the_member() -> None:
    driver = MemberDriver()
    driver.settle(*MINE)

    driver.member.commit_fenced(ErrorCode.ILLEGAL_GENERATION, driver.now_ms)

    assert isinstance(driver.take_event(), Lost)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_SESSION_TIMEOUT,
    ],
)
def test_a_fatal_error_ends_the_membership(error: ErrorCode) -> None:
    driver = MemberDriver(instance_id="first")
    driver.subscribe("orders")
    driver.next_request()

    driver.answer(
        JoinGroupResponse(error_code=error, leader="", protocol_name=None, member_id="", members=[])
    )

    assert isinstance(driver.member.failure, errors.BrokerError)
    assert driver.member.failure.code is error
    assert driver.next_request() is None
    assert driver.member.wake_at_ms(driver.now_ms) is None


def test_a_fenced_static_member_loses_its_partitions_and_stops() -> None:
    driver = MemberDriver(instance_id="first")
    driver.settle(*MINE)
    driver.heartbeat(ErrorCode.FENCED_INSTANCE_ID)

    assert isinstance(driver.take_event(), Lost)
    assert isinstance(driver.member.failure, errors.FencedInstanceId)
    driver.wait(100_000)
    assert driver.next_request() is None


@pytest.mark.parametrize(
    ("error", "is_moved"),
    [
        (ErrorCode.NOT_COORDINATOR, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
    ],
)
def test_a_coordinator_that_moves_or_loads_is_retried_with_backoff(error: ErrorCode, is_moved: bool) -> None:
    driver = MemberDriver()
    driver.settle(*MINE)
    driver.heartbeat(error)

    assert driver.member.coordinator_is_lost is is_moved
    assert driver.next_request() is None
    driver.wait(200)
    assert isinstance(driver.next_request(), HeartbeatRequest)
    driver.answer(HeartbeatResponse())
    assert driver.member.next_event() is None, "nothing is lost by that"


def test_backoff_grows_without_responses() -> None:
    driver = MemberDriver()
    driver.settle(*MINE)
    waits = []
    driver.wait(3_000)
    for _ in range(6):
        assert driver.next_request() is not None
        assert driver.sent is not None
        driver.member.failed(driver.sent, errors.Disconnected(), driver.now_ms)
        wake_at_ms = driver.member.wake_at_ms(driver.now_ms)
        assert wake_at_ms is not None
        waits.append(wake_at_ms - driver.now_ms)
        driver.now_ms = wake_at_ms

    assert waits[0] < 130
    assert waits[-1] >= 800


def test_a_session_without_responses_looks_up_the_coordinator() -> None:
    driver = MemberDriver()
    driver.settle(*MINE)
    driver.wait(3_000)
    driver.next_request()
    driver.wait(10_001)
    assert driver.sent is not None
    driver.member.failed(driver.sent, errors.TimedOut(), driver.now_ms)
    driver.member.coordinator_is_lost = False
    driver.wait(1_000)

    assert isinstance(driver.next_request(), HeartbeatRequest)

    assert driver.member.coordinator_is_lost
    assert driver.member.next_event() is None, "only a coordinator can put a member out"


@pytest.mark.parametrize("what", [JoinGroupRequest, SyncGroupRequest])
def test_a_join_or_sync_without_a_response_is_repeated(what: type) -> None:
    driver = MemberDriver()
    driver.subscribe("orders")
    if what is SyncGroupRequest:
        driver.join(leads=False)
    assert isinstance(driver.next_request(), what)
    assert driver.sent is not None

    driver.member.failed(driver.sent, errors.Disconnected(), driver.now_ms)
    driver.wait(1_000)

    assert isinstance(driver.next_request(), JoinGroupRequest)


def test_a_rebalance_before_the_sync_causes_a_rejoin() -> None:
    driver = MemberDriver()
    driver.subscribe("orders")
    driver.join(leads=False)
    assert isinstance(driver.next_request(), SyncGroupRequest)

    driver.answer(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, assignment=b""))

    assert isinstance(driver.next_request(), JoinGroupRequest)


def test_a_member_that_does_not_poll_leaves_with_a_warning_and_rejoins_on_poll(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = MemberDriver()
    driver.settle(*MINE)
    assert driver.member.wake_at_ms(driver.now_ms) is not None
    driver.wait(60_001)

    leave = driver.next_request()
    assert isinstance(leave, LeaveGroupRequest)
    assert leave.members[0].member_id == "me"
    assert "max.poll.interval.ms" in (leave.members[0].reason or "")
    assert "max.poll.interval.ms" in caplog.text
    driver.answer(LeaveGroupResponse())
    assert driver.next_request() is None
    assert driver.member.wake_at_ms(driver.now_ms) is None

    driver.member.note_poll(driver.now_ms)
    assert isinstance(driver.take_event(), Lost)
    assert isinstance(driver.next_request(), JoinGroupRequest)


def test_the_leader_ignores_a_broker_that_is_down_for_a_while() -> None:
    driver = MemberDriver("cooperative-sticky", orders=2)
    driver.cluster = replace(driver.cluster, nodes={1: Node(1, "host", 9092, rack="east")})
    driver.subscribe("orders")
    driver.join()
    driver.sync(*MINE)
    driver.take_event()

    driver.member.cluster_changed(replace(driver.cluster, nodes={}), driver.now_ms)

    assert driver.next_request() is None


def test_the_leader_notices_deleted_topics() -> None:
    driver = MemberDriver("cooperative-sticky", orders=2)
    driver.subscribe("orders")
    driver.join()
    driver.sync(*MINE)
    driver.take_event()
    gone = replace(driver.cluster.topics["orders"], error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    driver.cluster = replace(driver.cluster, topics={"orders": gone})
    driver.member.cluster_changed(driver.cluster, driver.now_ms)

    driver.join()
    assert driver.sync().assignments[0].assignment == write_assignment(MemberAssignment())
    driver.member.cluster_changed(driver.cluster, driver.now_ms)
    assert isinstance(driver.take_event(), Revoked)


def test_a_commit_of_a_fenced_static_member_ends_the_membership() -> None:
    driver = MemberDriver(instance_id="first")
    driver.settle(*MINE)

    driver.member.commit_fenced(ErrorCode.FENCED_INSTANCE_ID, driver.now_ms)

    assert isinstance(driver.take_event(), Lost)
    assert isinstance(driver.member.failure, errors.FencedInstanceId)


@pytest.mark.parametrize("instance_id", [None, "first"])
def test_a_member_that_left_without_a_response_can_rejoin(instance_id: str | None) -> None:
    driver = MemberDriver(instance_id=instance_id)
    driver.settle()
    driver.wait(3_000)
    assert isinstance(driver.next_request(), HeartbeatRequest), "and nobody will tell what came of it"

    driver.member.leave("unsubscribed", driver.now_ms)
    if not driver.member.has_left:
        assert isinstance(driver.next_request(), LeaveGroupRequest)
    driver.member.abandon_leave(driver.now_ms)
    driver.subscribe()
    driver.subscribe("orders")

    assert isinstance(driver.next_request(), JoinGroupRequest)


def test_a_static_member_that_does_not_poll_keeps_its_assignment() -> None:
    driver = MemberDriver(instance_id="first")
    driver.settle(*MINE)
    driver.wait(60_001)

    assert driver.next_request() is None
    assert driver.member.status is MemberStatus.NOT_MEMBER
    driver.member.note_poll(driver.now_ms)
    assert isinstance(driver.take_event(), Lost)
    request = driver.next_request()
    assert isinstance(request, JoinGroupRequest)
    assert request.group_instance_id == "first"


def test_leaving_sends_a_reason_and_ends_with_the_response() -> None:
    driver = MemberDriver()
    driver.settle(*MINE)
    driver.member.reconciliation.revoke()
    driver.take_event()

    driver.member.leave("closed", driver.now_ms)

    assert not driver.member.has_left
    request = driver.next_request()
    assert (request.members[0].member_id, request.members[0].reason) == ("me", "closed")
    driver.answer(LeaveGroupResponse())
    assert driver.member.has_left
    assert driver.member.next_event() is None
    assert leave_by_one(request).member_id == "me"


def test_a_static_member_leaves_without_a_request_unless_for_good() -> None:
    driver = MemberDriver(instance_id="first")
    driver.settle()
    driver.member.leave("closed", driver.now_ms)
    assert driver.member.has_left

    driver = MemberDriver(instance_id="first")
    driver.settle()
    driver.member.leave("closed", driver.now_ms, for_good=True)
    assert driver.next_request().members[0].group_instance_id == "first"


def test_leaving_does_not_wait_for_a_join_in_flight() -> None:
    driver = MemberDriver()
    driver.settle()
    driver.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(driver.next_request(), JoinGroupRequest)

    driver.member.leave("closed", driver.now_ms)

    assert isinstance(driver.next_request(), LeaveGroupRequest)


def test_the_leader_notices_added_partitions() -> None:
    driver = MemberDriver("cooperative-sticky", orders=2)
    driver.subscribe("orders")
    driver.join()
    driver.sync(*MINE)
    driver.take_event()
    driver.member.cluster_changed(cluster_of(orders=2), driver.now_ms)
    assert driver.next_request() is None

    driver.member.cluster_changed(cluster_of(orders=3), driver.now_ms)

    assert isinstance(driver.next_request(), JoinGroupRequest)


def test_the_leader_notices_topics_that_only_others_subscribe_to() -> None:
    driver = MemberDriver(orders=2)
    driver.subscribe("orders")
    driver.join(members={"other": write_subscription(["payments"])})
    driver.sync()
    driver.take_event()
    assert driver.member.topics_wanted == {"orders", "payments"}

    driver.member.cluster_changed(cluster_of(orders=2, payments=1), driver.now_ms)

    assert isinstance(driver.next_request(), JoinGroupRequest)


def test_a_leader_that_was_not_asked_to_assign_still_watches_metadata() -> None:
    driver = MemberDriver(instance_id="first", orders=2)
    driver.subscribe("orders")
    request = driver.next_request()
    driver.answer(
        JoinGroupResponse(
            generation_id=4,
            protocol_name="range",
            leader="me",
            member_id="me",
            skip_assignment=True,
            members=[JoinGroupResponseMember(member_id="me", metadata=request.protocols[0].metadata)],
        )
    )
    driver.member.cluster_changed(cluster_of(orders=2), driver.now_ms)
    assert driver.sync(*MINE).assignments == []
    driver.take_event()
    assert driver.next_request() is None

    driver.member.cluster_changed(cluster_of(orders=3), driver.now_ms)

    assert driver.next_request() is None
    assert isinstance(driver.take_event(), Revoked)
    assert isinstance(driver.next_request(), JoinGroupRequest)


def test_a_pattern_matches_whole_names_and_new_topics() -> None:
    driver = MemberDriver("cooperative-sticky", orders_a=1, orders_b=1, unordered=1)
    driver.subscribe(pattern=re.compile("orders_.*"))
    assert driver.member.topics_wanted is None
    request = driver.next_request()
    reported = read_subscription(request.protocols[0].metadata, member_id="me")
    assert reported.topics == ("orders_a", "orders_b")
    driver.answer(
        JoinGroupResponse(
            generation_id=1, protocol_name="cooperative-sticky", leader="other", member_id="me", members=[]
        )
    )
    driver.sync(*partitions("orders_a", 0))
    driver.take_event()
    assert driver.next_request() is None

    driver.cluster = cluster_of(orders_a=1, orders_b=1, orders_c=1)
    driver.member.cluster_changed(driver.cluster, driver.now_ms)

    again = driver.next_request()
    assert isinstance(again, JoinGroupRequest)
    assert "orders_c" in read_subscription(again.protocols[0].metadata, member_id="me").topics


@pytest.mark.parametrize("is_syncing", [False, True])
def test_a_subscription_changed_during_a_rebalance_is_not_lost(is_syncing: bool) -> None:
    driver = MemberDriver("cooperative-sticky", orders=2, payments=2)
    driver.subscribe("orders")
    request = driver.next_request()
    assert isinstance(request, JoinGroupRequest)
    if not is_syncing:
        driver.subscribe("orders", "payments")
    driver.answer(
        JoinGroupResponse(
            generation_id=1, protocol_name="cooperative-sticky", leader="other", member_id="me", members=[]
        )
    )
    assert isinstance(driver.next_request(), SyncGroupRequest)
    if is_syncing:
        driver.subscribe("orders", "payments")
    driver.answer(SyncGroupResponse(assignment=write_assignment(MemberAssignment(MINE))))

    again = driver.next_request()

    assert isinstance(again, JoinGroupRequest)
    assert read_subscription(again.protocols[0].metadata, member_id="me").topics == ("orders", "payments")


def test_a_late_response_is_ignored() -> None:
    driver = MemberDriver()
    driver.settle(*MINE)
    driver.wait(3_000)
    driver.next_request()
    old = driver.sent
    assert old is not None
    driver.member.reconciliation.revoke()
    driver.take_event()
    driver.member.leave("closed", driver.now_ms)

    driver.member.answered(old, HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID), driver.now_ms)

    assert driver.member.failure is None
