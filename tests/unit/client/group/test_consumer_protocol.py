"""A member of the newer protocol (KIP-848), step by step, on a clock that the test moves."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.client import errors
from penstock.client.cluster import Cluster, Node, PartitionInfo, Topic, TopicPartition
from penstock.client.group.consumer_protocol import ConsumerMembership, ConsumerProtocolSettings
from penstock.client.group.membership import LearnTopics, Send, Standing
from penstock.client.group.nouns import Assigned, Lost, Revoked, Subscription
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


class Stage:
    """One member, its clock, and the coordinator's lines spoken by the test."""

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
        self.learned = 0

    def subscribe(self, *topics: str, pattern: re.Pattern[str] | str | None = None) -> None:
        self.member.subscribe(Subscription(frozenset(topics), pattern), self.now_ms)

    def next_request(self) -> Any:
        while isinstance(action := self.member.next_action(self.now_ms), LearnTopics):
            self.learned += 1
            self.member.learned(self.cluster, self.now_ms)
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
        """Joined, and the application has what it was given, and the coordinator knows."""
        self.subscribe("orders")
        assert self.next_request().member_epoch == 0
        self.answer(owned("orders", *indexes))
        assert isinstance(self.take_event(), Assigned)
        assert self.next_request().topic_partitions == [owned("orders", *indexes)]
        self.answer(is_assigned=False)


def test_a_member_joins_with_its_own_id_and_says_everything() -> None:
    stage = Stage(instance_id="first")
    stage.subscribe("orders", "payments")

    request = stage.next_request()

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


def test_later_heartbeats_say_only_what_changed_at_the_brokers_interval() -> None:
    stage = Stage()
    stage.settle(0, 1)

    assert stage.next_request() is None
    assert stage.member.wake_at_ms(stage.now_ms) == stage.now_ms + 4_000
    stage.wait(4_000)
    assert stage.next_request() == ConsumerGroupHeartbeatRequest(
        group_id="billing", member_id="me", member_epoch=1
    )


def test_a_new_subscription_is_said_at_once() -> None:
    stage = Stage()
    stage.settle(0)
    stage.subscribe("orders", "payments")

    assert stage.next_request().subscribed_topic_names == ["orders", "payments"]


def test_what_is_taken_away_is_let_go_of_and_then_acknowledged_at_once() -> None:
    stage = Stage()
    stage.settle(0, 1, 2)
    stage.wait(4_000)
    stage.next_request()
    stage.answer(owned("orders", 0), epoch=1)

    assert stage.next_request() is None
    revoked = stage.take_event()
    assert isinstance(revoked, Revoked)
    assert revoked.partitions == partitions("orders", 1, 2)
    request = stage.next_request()
    assert request.topic_partitions == [owned("orders", 0)]
    stage.answer(epoch=2, is_assigned=False)
    assert stage.member.metadata.generation == 2


def test_heartbeats_go_on_while_the_application_lets_go() -> None:
    stage = Stage()
    stage.settle(0, 1)
    stage.wait(4_000)
    stage.next_request()
    stage.answer(epoch=1)
    assert isinstance(stage.member.next_event(), Revoked)
    stage.wait(4_000)

    request = stage.next_request()

    assert (request.member_epoch, request.topic_partitions) == (1, None)


def test_an_assignment_that_says_nothing_new_is_no_news() -> None:
    stage = Stage()
    stage.settle(0, 1)
    stage.wait(4_000)
    stage.next_request()
    stage.answer(owned("orders", 1, 0), epoch=3)

    assert stage.member.next_event() is None
    assert stage.member.generation == 3


def test_a_topic_that_is_not_known_yet_is_looked_up_until_it_is() -> None:
    stage = Stage()
    stage.subscribe("orders", "news")
    stage.next_request()
    stage.answer(owned("orders", 0), owned("news", 0))

    assert stage.take_event().partitions == partitions("orders", 0)
    assert stage.next_request().topic_partitions == [owned("orders", 0)]
    assert stage.learned == 1
    stage.answer(is_assigned=False)
    stage.cluster = cluster_of(orders=4, news=1)
    assert stage.next_request() is None
    stage.wait(1_000)
    assert stage.next_request() is None
    assert stage.learned == 2

    assert stage.take_event().partitions == partitions("news", 0)


def test_a_topic_stays_known_when_the_picture_does_not_show_it_any_more() -> None:
    stage = Stage()
    stage.settle(0, 1)
    stage.member.cluster_changed(cluster_of(others=1), stage.now_ms)

    assert stage.member.next_event() is None
    assert stage.member.holdings.held == frozenset(partitions("orders", 0, 1))


@pytest.mark.parametrize(
    "error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_a_fenced_member_loses_everything_and_joins_anew_with_its_id(error: ErrorCode) -> None:
    stage = Stage()
    stage.settle(0, 1)
    stage.wait(4_000)
    stage.next_request()
    stage.answer(error=error, is_assigned=False)

    assert stage.next_request() is None, "the application does not know yet"
    assert stage.member.standing is Standing.OUT
    lost = stage.take_event()
    assert isinstance(lost, Lost)
    assert lost.partitions == partitions("orders", 0, 1)
    assert stage.member.metadata == ("billing", 1, "me", None), "by which a transaction of its is refused"
    request = stage.next_request()
    assert (request.member_id, request.member_epoch, request.topic_partitions) == ("me", 0, [])
    assert request.subscribed_topic_names == ["orders"]


def test_a_commit_that_was_refused_puts_the_member_out() -> None:
    stage = Stage()
    stage.settle(0)

    stage.member.put_out(ErrorCode.UNKNOWN_MEMBER_ID, stage.now_ms)

    assert isinstance(stage.take_event(), Lost)


def test_a_commit_with_an_old_epoch_has_the_new_one_asked_for() -> None:
    stage = Stage()
    stage.settle(0)
    assert stage.next_request() is None

    stage.member.hurry(stage.now_ms)

    assert stage.next_request().member_epoch == 1


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
def test_what_waiting_does_not_cure_ends_the_membership(error: ErrorCode) -> None:
    stage = Stage()
    stage.settle(0)
    stage.wait(4_000)
    stage.next_request()
    stage.answer(error=error, is_assigned=False)

    assert isinstance(stage.take_event(), Lost)
    assert isinstance(stage.member.failure, errors.BrokerError)
    assert stage.member.failure.code is error
    assert stage.next_request() is None


@pytest.mark.parametrize(
    ("error", "is_moved"),
    [
        (ErrorCode.NOT_COORDINATOR, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
    ],
)
def test_after_a_refusal_for_now_everything_is_said_again(error: ErrorCode, is_moved: bool) -> None:
    stage = Stage()
    stage.settle(0)
    stage.wait(4_000)
    stage.next_request()
    stage.answer(error=error, is_assigned=False)

    assert stage.member.coordinator_is_lost is is_moved
    assert stage.next_request() is None
    stage.wait(200)
    request = stage.next_request()
    assert (request.member_epoch, request.subscribed_topic_names, request.topic_partitions) == (
        1,
        ["orders"],
        [owned("orders", 0)],
    )
    assert request.rebalance_timeout_ms == 60_000


def test_after_an_answer_that_never_came_everything_is_said_again() -> None:
    stage = Stage()
    stage.settle(0)
    stage.wait(4_000)
    stage.next_request()
    assert stage.sent is not None
    stage.member.failed(stage.sent, errors.Disconnected(), stage.now_ms)
    stage.wait(200)

    assert stage.next_request().topic_partitions == [owned("orders", 0)]


def test_what_was_let_go_of_while_a_heartbeat_was_under_way_is_said_with_the_next() -> None:
    stage = Stage()
    stage.settle(0, 1)
    stage.wait(4_000)
    stage.next_request()
    stage.answer(owned("orders", 0))
    stage.wait(4_000)
    event = stage.member.next_event()
    assert event is not None
    stage.next_request()
    stage.member.acknowledge(event, stage.now_ms)
    stage.answer(is_assigned=False)

    assert stage.next_request().topic_partitions == [owned("orders", 0)]


@pytest.mark.parametrize(
    ("instance_id", "for_good", "epoch"), [(None, False, -1), ("first", False, -2), ("first", True, -1)]
)
def test_leaving_static_members_keep_their_place_unless_it_is_for_good(
    instance_id: str | None, for_good: bool, epoch: int
) -> None:
    stage = Stage(instance_id=instance_id)
    stage.settle(0)
    stage.member.holdings.withdraw()
    stage.take_event()

    stage.member.leave("closed", stage.now_ms, for_good=for_good)

    assert stage.next_request() == ConsumerGroupHeartbeatRequest(
        group_id="billing", member_id="me", member_epoch=epoch, instance_id=instance_id
    )
    stage.answer(epoch=epoch, is_assigned=False)
    assert stage.member.has_left
    assert stage.member.generation == -1


def test_a_member_that_left_without_an_answer_can_join_again() -> None:
    stage = Stage()
    stage.settle(0)
    stage.wait(4_000)
    stage.next_request()
    stage.member.holdings.withdraw()
    stage.take_event()

    stage.member.leave("unsubscribed", stage.now_ms)
    stage.next_request()
    stage.member.give_up_goodbye(stage.now_ms)
    stage.subscribe()
    stage.subscribe("orders")

    assert stage.next_request().member_epoch == 0


def test_a_member_that_never_joined_leaves_without_a_word() -> None:
    stage = Stage()
    stage.subscribe("orders")

    stage.member.leave("closed", stage.now_ms)

    assert stage.member.has_left


def test_a_member_that_does_not_poll_leaves_and_comes_back_with_the_next_poll(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    stage.settle(0)
    stage.wait(60_001)

    assert stage.next_request().member_epoch == -1
    assert "max.poll.interval.ms" in caplog.text
    stage.answer(epoch=-1, is_assigned=False)
    stage.wait(100_000)
    assert stage.next_request() is None
    stage.member.note_poll(stage.now_ms)
    lost = stage.take_event()
    assert isinstance(lost, Lost)
    assert "max.poll.interval.ms" in lost.reason
    assert stage.next_request().member_epoch == 0


def test_a_text_is_a_pattern_for_brokers_and_is_taken_back_by_an_empty_one() -> None:
    stage = Stage()
    stage.subscribe(pattern="orders.*")
    request = stage.next_request()
    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == ("orders.*", [])
    stage.answer(owned("orders", 0))
    stage.take_event()
    stage.subscribe("orders")

    request = stage.next_request()

    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == ("", ["orders"])


def test_a_compiled_pattern_is_matched_here() -> None:
    stage = Stage(orders_a=1, others=1)
    stage.subscribe(pattern=re.compile("orders.*"))
    request = stage.next_request()
    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == (None, ["orders_a"])
    stage.answer()
    stage.cluster = cluster_of(orders_a=1, orders_b=1)

    stage.member.cluster_changed(stage.cluster, stage.now_ms)

    assert stage.next_request().subscribed_topic_names == ["orders_a", "orders_b"]


def test_a_pattern_for_brokers_that_are_too_old_for_it_is_matched_here() -> None:
    stage = Stage(orders_a=1, others=1)
    stage.subscribe(pattern="orders.*")
    assert stage.next_request().subscribed_topic_regex == "orders.*"
    assert stage.sent is not None

    stage.member.match_patterns_here(stage.sent, stage.now_ms)
    stage.wait(200)

    request = stage.next_request()
    assert (request.subscribed_topic_regex, request.subscribed_topic_names) == (None, ["orders_a"])
    assert not stage.member.coordinator_is_lost
