"""A member of the consumer protocol (KIP-848), step by step, on a clock that the test moves."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.client import errors
from penstock.client.cluster import Cluster, Node, PartitionInfo, Topic, TopicPartition
from penstock.client.group.consumer_protocol import ConsumerMembership, ConsumerProtocolSettings
from penstock.client.group.membership import MemberStatus, RefreshMetadata, Send
from penstock.client.group.types import Assigned, Lost, Revoked, Subscription
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.protocol.types import Uuid


def id_of(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"."))


def cluster_of(**topics: int) -> Cluster:
    found = {
        name: Topic(
            name, id_of(name), partitions=tuple(PartitionInfo(index, 1, 0, (1,)) for index in range(count))
        )
        for name, count in topics.items()
    }
    return Cluster(
        nodes={1: Node(1, "host", 9092)},
        topics=found,
        topics_by_id={topic.id: topic for topic in found.values()},
    )


def partitions(topic: str, *indexes: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, index) for index in indexes)


def owned(topic: str, *indexes: int) -> TopicPartitions:
    return TopicPartitions(topic_id=id_of(topic), partitions=list(indexes))


class MemberDriver:
    """One member and its clock; the test plays the coordinator."""

    def __init__(self, *, instance_id: str | None = None, **topics: int) -> None:
        self.now_ms = 1_000
        self.cluster = cluster_of(**(topics or {"orders": 4}))
        settings = ConsumerProtocolSettings(
            group_id="billing",
            member_id="me",
            instance_id=instance_id,
            remote_assignor="range",
            rack="east",
            poll_interval_ms=60_000,
        )
        self.member = ConsumerMembership(settings, now_ms=self.now_ms)
        self.member.cluster_changed(self.cluster, self.now_ms)
        self.sent: Send | None = None
        self.metadata_refreshed = 0

    def subscribe(self, *topics: str, pattern: re.Pattern[str] | str | None = None) -> None:
        self.member.subscribe(Subscription(frozenset(topics), pattern), self.now_ms)

    def next_request(self) -> Any:
        while isinstance(action := self.member.next_action(self.now_ms), RefreshMetadata):
            self.metadata_refreshed += 1
            self.member.metadata_refreshed(self.cluster, self.now_ms)
        self.sent = action
        return action.request if action is not None else None

    def answer(
        self,
        *given: TopicPartitions,
        epoch: int = 1,
        is_assigned: bool = True,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        assert self.sent is not None
        response = ConsumerGroupHeartbeatResponse(
            error_code=error,
            member_id="me",
            member_epoch=epoch,
            heartbeat_interval_ms=4_000,
            assignment=Assignment(topic_partitions=list(given)) if is_assigned else None,
        )
        self.member.answered(self.sent, response, self.now_ms)

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def take_event(self) -> Any:
        event = self.member.next_event()
        if event is not None:
            self.member.acknowledge(event, self.now_ms)
        return event

    def settle(self, *indexes: int) -> None:
        """Joined; the application has its partitions, and the coordinator knows."""
        self.subscribe("orders")
        assert self.next_request().member_epoch == 0
        self.answer(owned("orders", *indexes))
        assert isinstance(self.take_event(), Assigned)
        assert self.next_request().topic_partitions == [owned("orders", *indexes)]
        self.answer(is_assigned=False)


def test_a_member_joins_with_its_own_id_and_all_fields() -> None:
    driver = MemberDriver(instance_id="first")
    driver.subscribe("orders", "payments")

    request = driver.next_request()

    assert request == ConsumerGroupHeartbeatRequest(
        group_id="billing",
        member_id="me",
        member_epoch=0,
        instance_id="first",
        rack_id="east",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders", "payments"],
        server_assignor="range",
        topic_partitions=[],
    )


def test_later_heartbeats_have_only_changes_at_the_brokers_interval() -> None:
    driver = MemberDriver()
    driver.settle(0, 1)

    assert driver.next_request() is None
    assert driver.member.wake_at_ms(driver.now_ms) == driver.now_ms + 4_000
    driver.wait(4_000)
    assert driver.next_request() == ConsumerGroupHeartbeatRequest(
        group_id="billing", member_id="me", member_epoch=1
    )


def test_a_new_subscription_is_sent_at_once() -> None:
    driver = MemberDriver()
    driver.settle(0)
    driver.subscribe("orders", "payments")

    assert driver.next_request().subscribed_topic_names == ["orders", "payments"]


def test_revoked_partitions_are_acknowledged_at_once() -> None:
    driver = MemberDriver()
    driver.settle(0, 1, 2)
    driver.wait(4_000)
    driver.next_request()
    driver.answer(owned("orders", 0), epoch=1)

    assert driver.next_request() is None
    revoked = driver.take_event()
    assert isinstance(revoked, Revoked)
    assert revoked.partitions == partitions("orders", 1, 2)
    request = driver.next_request()
    assert request.topic_partitions == [owned("orders", 0)]
    driver.answer(epoch=2, is_assigned=False)
    assert driver.member.metadata.generation == 2


def test_heartbeats_continue_while_the_application_revokes() -> None:
    driver = MemberDriver()
    driver.settle(0, 1)
    driver.wait(4_000)
    driver.next_request()
    driver.answer(epoch=1)
    assert isinstance(driver.member.next_event(), Revoked)
    driver.wait(4_000)

    request = driver.next_request()

    assert (request.member_epoch, request.topic_partitions) == (1, None)


def test_an_unchanged_assignment_causes_no_event() -> None:
    driver = MemberDriver()
    driver.settle(0, 1)
    driver.wait(4_000)
    driver.next_request()
    driver.answer(owned("orders", 1, 0), epoch=3)

    assert driver.member.next_event() is None
    assert driver.member.generation == 3


def test_an_unknown_topic_is_looked_up_until_it_is_known() -> None:
    driver = MemberDriver()
    driver.subscribe("orders", "news")
    driver.next_request()
    driver.answer(owned("orders", 0), owned("news", 0))

    assert driver.take_event().partitions == partitions("orders", 0)
    assert driver.next_request().topic_partitions == [owned("orders", 0)]
    assert driver.metadata_refreshed == 1
    driver.answer(is_assigned=False)
    driver.cluster = cluster_of(orders=4, news=1)
    assert driver.next_request() is None
    driver.wait(1_000)
    assert driver.next_request() is None
    assert driver.metadata_refreshed == 2

    assert driver.take_event().partitions == partitions("news", 0)


def test_a_topic_stays_known_when_it_leaves_the_metadata() -> None:
    driver = MemberDriver()
    driver.settle(0, 1)
    driver.member.cluster_changed(cluster_of(others=1), driver.now_ms)

    assert driver.member.next_event() is None
    assert driver.member.reconciliation.owned == frozenset(partitions("orders", 0, 1))


@pytest.mark.parametrize(
    "error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_a_fenced_member_loses_everything_and_rejoins_with_its_id(error: ErrorCode) -> None:
    driver = MemberDriver()
    driver.settle(0, 1)
    driver.wait(4_000)
    driver.next_request()
    driver.answer(error=error, is_assigned=False)

    assert driver.next_request() is None, "the application does not know yet"
    assert driver.member.status is MemberStatus.NOT_MEMBER
    lost = driver.take_event()
    assert isinstance(lost, Lost)
    assert lost.partitions == partitions("orders", 0, 1)
    assert driver.member.metadata == ("billing", 1, "me", None), "by which a transaction of its is refused"
    request = driver.next_request()
    assert (request.member_id, request.member_epoch, request.topic_partitions) == ("me", 0, [])
    assert request.subscribed_topic_names == ["orders"]


def test_a_rejected_commit_fences_the_member() -> None:
    driver = MemberDriver()
    driver.settle(0)

    driver.member.commit_fenced(ErrorCode.UNKNOWN_MEMBER_ID, driver.now_ms)

    assert isinstance(driver.take_event(), Lost)


def test_a_commit_with_a_stale_epoch_causes_a_heartbeat() -> None:
    driver = MemberDriver()
    driver.settle(0)
    assert driver.next_request() is None

    driver.member.heartbeat_now(driver.now_ms)

    assert driver.next_request().member_epoch == 1


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_a_fatal_error_ends_the_membership(error: ErrorCode) -> None:
    driver = MemberDriver()
    driver.settle(0)
    driver.wait(4_000)
    driver.next_request()
    driver.answer(error=error, is_assigned=False)

    assert isinstance(driver.take_event(), Lost)
    assert isinstance(driver.member.failure, errors.BrokerError)
    assert driver.member.failure.code is error
    assert driver.next_request() is None


@pytest.mark.parametrize(
    ("error", "is_moved"),
    [
        (ErrorCode.NOT_COORDINATOR, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
    ],
)
def test_after_a_retriable_error_all_fields_are_sent(error: ErrorCode, is_moved: bool) -> None:
    driver = MemberDriver()
    driver.settle(0)
    driver.wait(4_000)
    driver.next_request()
    driver.answer(error=error, is_assigned=False)

    assert driver.member.coordinator_is_lost is is_moved
    assert driver.next_request() is None
    driver.wait(200)
    request = driver.next_request()
    assert (request.member_epoch, request.subscribed_topic_names, request.topic_partitions) == (
        1,
        ["orders"],
        [owned("orders", 0)],
    )
    assert request.rebalance_timeout_ms == 60_000


def test_after_a_missing_response_all_fields_are_sent() -> None:
    driver = MemberDriver()
    driver.settle(0)
    driver.wait(4_000)
    driver.next_request()
    assert driver.sent is not None
    driver.member.failed(driver.sent, errors.Disconnected(), driver.now_ms)
    driver.wait(200)

    assert driver.next_request().topic_partitions == [owned("orders", 0)]


def test_partitions_revoked_during_a_heartbeat_are_sent_with_the_next() -> None:
    driver = MemberDriver()
    driver.settle(0, 1)
    driver.wait(4_000)
    driver.next_request()
    driver.answer(owned("orders", 0))
    driver.wait(4_000)
    event = driver.member.next_event()
    assert event is not None
    driver.next_request()
    driver.member.acknowledge(event, driver.now_ms)
    driver.answer(is_assigned=False)

    assert driver.next_request().topic_partitions == [owned("orders", 0)]


@pytest.mark.parametrize(
    ("instance_id", "for_good", "epoch"), [(None, False, -1), ("first", False, -2), ("first", True, -1)]
)
def test_static_members_keep_their_assignment_unless_they_leave_for_good(
    instance_id: str | None, for_good: bool, epoch: int
) -> None:
    driver = MemberDriver(instance_id=instance_id)
    driver.settle(0)
    driver.member.reconciliation.revoke()
    driver.take_event()

    driver.member.leave("closed", driver.now_ms, for_good=for_good)

    assert driver.next_request() == ConsumerGroupHeartbeatRequest(
        group_id="billing", member_id="me", member_epoch=epoch, instance_id=instance_id
    )
    driver.answer(epoch=epoch, is_assigned=False)
    assert driver.member.has_left
    assert driver.member.generation == -1


def test_a_member_that_left_without_a_response_can_rejoin() -> None:
    driver = MemberDriver()
    driver.settle(0)
    driver.wait(4_000)
    driver.next_request()
    driver.member.reconciliation.revoke()
    driver.take_event()

    driver.member.leave("unsubscribed", driver.now_ms)
    driver.next_request()
    driver.member.abandon_leave(driver.now_ms)
    driver.subscribe()
    driver.subscribe("orders")

    assert driver.next_request().member_epoch == 0


def test_a_member_that_never_joined_leaves_without_a_request() -> None:
    driver = MemberDriver()
    driver.subscribe("orders")

    driver.member.leave("closed", driver.now_ms)

    assert driver.member.has_left


def test_a_member_that_does_not_poll_leaves_and_rejoins_on_poll(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = MemberDriver()
    driver.settle(0)
    driver.wait(60_001)

    assert driver.next_request().member_epoch == -1
    assert "max.poll.interval.ms" in caplog.text
    driver.answer(epoch=-1, is_assigned=False)
    driver.wait(100_000)
    assert driver.next_request() is None
    driver.member.note_poll(driver.now_ms)
    lost = driver.take_event()
    assert isinstance(lost, Lost)
    assert "max.poll.interval.ms" in lost.reason
    assert driver.next_request().member_epoch == 0


def test_a_text_pattern_is_matched_by_brokers_and_removed_by_an_empty_one() -> None:
    driver = MemberDriver()
    driver.subscribe(pattern="orders.*")
    request = driver.next_request()
    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == ("orders.*", [])
    driver.answer(owned("orders", 0))
    driver.take_event()
    driver.subscribe("orders")

    request = driver.next_request()

    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == ("", ["orders"])


def test_a_compiled_pattern_is_matched_by_the_client() -> None:
    driver = MemberDriver(orders_a=1, others=1)
    driver.subscribe(pattern=re.compile("orders.*"))
    request = driver.next_request()
    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == (None, ["orders_a"])
    driver.answer()
    driver.cluster = cluster_of(orders_a=1, orders_b=1)

    driver.member.cluster_changed(driver.cluster, driver.now_ms)

    assert driver.next_request().subscribed_topic_names == ["orders_a", "orders_b"]


def test_a_pattern_is_matched_by_the_client_if_brokers_are_too_old() -> None:
    driver = MemberDriver(orders_a=1, others=1)
    driver.subscribe(pattern="orders.*")
    assert driver.next_request().subscribed_topic_regex == "orders.*"
    assert driver.sent is not None

    driver.member.match_patterns_here(driver.sent, driver.now_ms)
    driver.wait(200)

    request = driver.next_request()
    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == (None, ["orders_a"])
    assert not driver.member.coordinator_is_lost
