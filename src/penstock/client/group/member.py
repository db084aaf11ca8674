"""A consumer's membership in its group: drives either protocol.

One task runs the membership's next action: finds the coordinator, sends, refreshes metadata, waits. So heartbeats need
no help from the application. Events wait until the application asks for them in its own poll (`next_event`), and the
protocol continues when they are acknowledged. Nothing here decides, and nothing here fetches.

    member.subscribe(["orders"])
    while ...:
        member.note_poll()
        while (event := member.next_event()) is not None:
            ...                      # Revoked: commit; Assigned: start to fetch; Lost: drop
            member.acknowledge(event)
    await member.leave("the consumer is closed")
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from penstock.client import errors
from penstock.client.cluster import Cluster, TopicPartition
from penstock.client.cluster_client import ClusterClient, CoordinatorKind
from penstock.client.group.assignors import assignors_of
from penstock.client.group.classic import ClassicMembership, ClassicSettings, leave_by_one
from penstock.client.group.consumer_protocol import ConsumerMembership, ConsumerProtocolSettings
from penstock.client.group.membership import Action, Membership, MemberStatus, RefreshMetadata, Send
from penstock.client.group.offsets import GroupOffsets
from penstock.client.group.types import Event, GroupMetadata, Lost, Offset, Revoked, Subscription
from penstock.client.settings import ClientSettings
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.leave_group import LeaveGroupRequest
from penstock.protocol.types import random_uuid, uuid_text

logger = logging.getLogger(__name__)

REGEX_VERSION = 1  # of ConsumerGroupHeartbeat: brokers match patterns
LEAVE_MANY_VERSION = 3  # of LeaveGroup
LEAVE_TIMEOUT_MS = 5_000
MISSING_TOPIC_PATIENCE_MS = 5_000  # a topic may just have been created
SEARCH_TIMEOUT_MS = 1_000  # to find the coordinator for leaving: without a broker, no request helps


class GroupMember:
    def __init__(self, client: ClusterClient, *, rng: random.Random | None = None) -> None:
        settings = client.settings
        self.group_id: str = settings.get("group.id")
        self.on_event: Callable[[], None] = lambda: None
        """Called on the loop when `next_event` may have something, to wake a waiting poll."""
        self._client = client
        self._membership = _membership(settings, rng or random.Random(), client)
        self._offsets = GroupOffsets(
            client,
            self.group_id,
            requires_stable=settings.get("isolation.level") == "read_committed",
            on_refused=self._refused,
        )
        self._may_create: bool = settings.get("allow.auto.create.topics")
        self._task: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._wakeup = asyncio.Event()
        self._is_idle = asyncio.Event()
        client.on_update(self._cluster_changed)

    # Membership

    def subscribe(
        self, topics: Collection[str] = (), *, pattern: re.Pattern[str] | str | None = None
    ) -> None:
        """Join the group, or change the subscription. Text is an RE2 pattern for brokers to match."""
        if isinstance(pattern, str) and isinstance(self._membership, ClassicMembership):
            try:
                re.compile(pattern)
            except re.error as exc:
                raise errors.BadArgument(f"{pattern!r} is not a regular expression: {exc}") from None
        self._membership.reset_failure()
        self._membership.subscribe(Subscription(frozenset(topics), pattern), self._client.now_ms())
        self._client.want(self._membership.topics_wanted)
        if topics:
            self._look_for(topics)
        self._wake()

    @property
    def subscription(self) -> Subscription:
        return self._membership.subscription

    @property
    def metadata(self) -> GroupMetadata:
        return self._membership.metadata

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that the application has and has not given up."""
        return self._membership.reconciliation.owned

    def note_poll(self, now_ms: int | None = None) -> None:
        """The application has polled. Without this for `max.poll.interval.ms`, the member leaves its group."""
        self._membership.note_poll(self._client.now_ms() if now_ms is None else now_ms)
        self._wake()

    def next_event(self) -> Event | None:
        """The next event for the application, the same until it is acknowledged. Raises the error that ended the
        membership."""
        event = self._membership.next_event()
        if event is None and self._membership.failure is not None:
            failure = self._membership.failure
            if isinstance(failure, errors.AuthorizationError):
                self._membership.reset_failure()  # an ACL may be added: the next poll tries again
            raise failure
        return event

    def acknowledge(self, event: Event) -> None:
        self._membership.acknowledge(event, self._client.now_ms())
        self._wake()

    def revoke_all(self) -> Revoked | Lost | None:
        """Revoke all partitions, as before leaving; returns the event to handle and acknowledge, if there is one."""
        self._membership.reconciliation.revoke()
        event = self._membership.next_event()
        return event if isinstance(event, Revoked | Lost) else None

    async def leave(self, reason: str, *, timeout_ms: int = LEAVE_TIMEOUT_MS, for_good: bool = False) -> None:
        """Leave the group. A static member keeps its assignment until its session ends, unless `for_good`."""
        membership, client = self._membership, self._client
        was_joining = isinstance(membership, ClassicMembership) and self._asking is not None
        await self._stop()
        membership.reset_failure()
        membership.leave(reason, client.now_ms(), for_good=for_good)
        if not membership.has_left:
            with contextlib.suppress(errors.PenstockError, TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._send_leave_request(past_others=was_joining)
            membership.abandon_leave(client.now_ms())
        membership.reset_failure()
        membership.subscribe(Subscription(), client.now_ms())

    # Offsets

    async def commit(
        self, offsets: Mapping[TopicPartition, Offset], *, deadline_ms: int | None = None
    ) -> None:
        """Commit offsets. `CommitFailed` if the group has removed this member."""
        deadline_ms = self._client.deadline() if deadline_ms is None else deadline_ms

        async def identity() -> GroupMetadata:
            return await self._identity_of_commit(offsets)

        await self._offsets.commit(offsets, identity, deadline_ms=deadline_ms)

    async def committed(
        self, partitions: Collection[TopicPartition], *, deadline_ms: int | None = None
    ) -> dict[TopicPartition, Offset]:
        """The group's committed offsets; partitions without one are left out."""
        deadline_ms = self._client.deadline() if deadline_ms is None else deadline_ms
        return await self._offsets.committed(partitions, self._identity_of_lookup, deadline_ms=deadline_ms)

    async def _identity_of_commit(self, offsets: Mapping[TopicPartition, Offset]) -> GroupMetadata:
        membership = self._membership
        if not membership.subscription:
            return GroupMetadata(self.group_id)
        while (
            membership.status is MemberStatus.REBALANCING
            and offsets.keys() <= membership.reconciliation.owned
        ):
            self._is_idle.clear()
            await self._is_idle.wait()
        match membership.status:
            case MemberStatus.MEMBER:
                return membership.metadata
            case MemberStatus.REBALANCING:
                message = "the group is rebalancing, and this member does not own these partitions now"
                raise errors.RebalanceInProgress(message, about=f"group {self.group_id}")
            case MemberStatus.NOT_MEMBER:
                message = "this member is not in its group"
                raise errors.CommitFailed(message, about=f"group {self.group_id}")

    async def _identity_of_lookup(self) -> GroupMetadata:
        """Classic members look up without a member id; the consumer protocol needs it."""
        membership = self._membership
        if isinstance(membership, ConsumerMembership) and membership.status is MemberStatus.MEMBER:
            return membership.metadata
        return GroupMetadata(self.group_id)

    def _refused(self, error: ErrorCode) -> None:
        now_ms = self._client.now_ms()
        if error == ErrorCode.STALE_MEMBER_EPOCH and isinstance(self._membership, ConsumerMembership):
            self._membership.heartbeat_now(now_ms)
        else:
            self._membership.commit_fenced(error, now_ms)
        self._wake()

    # The task

    def _wake(self) -> None:
        self._wakeup.set()
        if (self._task is None or self._task.done()) and self._membership.subscription:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="penstock-group-member")

    def _cluster_changed(self, cluster: Cluster) -> None:
        self._membership.cluster_changed(cluster, self._client.now_ms())
        if self._task is not None:
            self._wake()

    async def _run(self) -> None:
        try:
            await self._live()
        except Exception as error:  # the application must get the error, and nothing can go on
            self._membership.failure = error
            self._notify()

    async def _live(self) -> None:
        client, membership = self._client, self._membership
        while True:
            self._wakeup.clear()
            now_ms = client.now_ms()
            action = membership.next_action(now_ms)
            self._notify()
            if action is None:
                await self._sleep(membership.wake_at_ms(now_ms))
            else:
                self._asking = asyncio.get_running_loop().create_task(self._do(action))
                try:
                    await self._asking
                finally:
                    self._asking = None
            client.want(membership.topics_wanted)

    def _notify(self) -> None:
        self._is_idle.set()
        if self._membership.failure is not None or self._membership.reconciliation.has_event:
            self.on_event()

    async def _sleep(self, until_ms: int | None) -> None:
        if until_ms is None:
            await self._wakeup.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until_ms / 1000):
                await self._wakeup.wait()

    async def _do(self, action: Action) -> None:
        if isinstance(action, RefreshMetadata):
            await self._refresh_metadata()
        else:
            await self._send(action)

    async def _refresh_metadata(self) -> None:
        client, membership = self._client, self._membership
        client.want(membership.topics_wanted)
        try:
            cluster = await client.refresh(
                deadline_ms=client.now_ms() + membership.settings.request_timeout_ms
            )
        except errors.PenstockError as error:
            if not error.retriable:
                raise
            return
        membership.metadata_refreshed(cluster, client.now_ms())

    async def _send(self, action: Send) -> None:
        client, membership = self._client, self._membership
        kind, key = CoordinatorKind.GROUP, self.group_id
        if membership.coordinator_is_lost:
            client.forget_coordinator(kind, key)
            membership.coordinator_is_lost = False
        try:
            deadline_ms = client.now_ms() + membership.settings.request_timeout_ms
            node_id = await client.coordinator(kind, key, deadline_ms=deadline_ms)
            response = await self._ask(node_id, action)
        except _NoPatterns:
            assert isinstance(membership, ConsumerMembership)
            membership.match_patterns_here(action, client.now_ms())
        except errors.PenstockError as error:
            membership.failed(action, error, client.now_ms())
        else:
            membership.answered(action, response, client.now_ms())

    async def _ask(self, node_id: int, action: Send) -> Any:
        """Send the request in a form that this coordinator understands."""
        client, request = self._client, action.request
        await client.connect(node_id)
        match request:
            case LeaveGroupRequest() if client.version_of(node_id, ApiKey.LEAVE_GROUP) < LEAVE_MANY_VERSION:
                request = leave_by_one(request)
            case ConsumerGroupHeartbeatRequest(subscribed_topic_regex=str()):
                if client.version_of(node_id, ApiKey.CONSUMER_GROUP_HEARTBEAT) < REGEX_VERSION:
                    raise _NoPatterns
        return await client.ask(node_id, request, timeout_ms=action.timeout_ms)

    async def _send_leave_request(self, *, past_others: bool) -> None:
        """One attempt: the session times out by itself otherwise.

        A broker reads a connection's next request after it has answered the last one, and a JoinGroup may wait for
        minutes: if one is in flight, this uses another connection.
        """
        client, membership = self._client, self._membership
        action = membership.next_action(client.now_ms())
        assert isinstance(action, Send), "a member that has not left has a request to send"
        node_id = await client.coordinator(
            CoordinatorKind.GROUP, self.group_id, deadline_ms=client.deadline(SEARCH_TIMEOUT_MS)
        )
        node = client.node(node_id)
        if past_others and node is not None:
            node_id = node.id
        try:
            response = await self._ask(node_id, action)
        except errors.PenstockError as error:
            logger.info("group %s: leaving the group failed: %s", self.group_id, error)
            membership.failed(action, error, client.now_ms())
        else:
            membership.answered(action, response, client.now_ms())

    async def _stop(self) -> None:
        tasks = [task for task in (self._task, self._asking, self._looking) if task is not None]
        self._task = self._asking = self._looking = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _look_for(self, topics: Collection[str]) -> None:
        """Warn of topics that do not exist; the group waits for them. With `allow.auto.create.topics` they are
        created."""

        async def look() -> None:
            try:
                await self._client.topics(
                    topics, may_create=self._may_create, patience_ms=MISSING_TOPIC_PATIENCE_MS
                )
            except errors.UnknownTopicOrPartition as error:
                logger.warning("group %s waits for a topic that does not exist: %s", self.group_id, error)
            except errors.PenstockError as error:  # the membership gets the same error and decides
                logger.info("group %s: topics could not be looked up: %s", self.group_id, error)

        if self._looking is not None:
            self._looking.cancel()
        self._looking = asyncio.get_running_loop().create_task(look(), name="penstock-group-topics")


class _NoPatterns(Exception):
    """The coordinator does not match patterns."""


def _membership(settings: ClientSettings, rng: random.Random, client: ClusterClient) -> Membership:
    now_ms = client.now_ms()
    common = {
        "group_id": settings.get("group.id"),
        "instance_id": settings.get("group.instance.id"),
        "rack": settings.get("client.rack") or None,
        "poll_interval_ms": settings.get("max.poll.interval.ms"),
        "request_timeout_ms": settings.get("request.timeout.ms"),
        "backoff": client.backoff,
        "with_internal_topics": not settings.get("exclude.internal.topics"),
    }
    if settings.get("group.protocol").lower() == "consumer":
        return ConsumerMembership(
            ConsumerProtocolSettings(
                **common,
                member_id=uuid_text(random_uuid(rng)),
                remote_assignor=settings.get("group.remote.assignor"),
            ),
            now_ms=now_ms,
        )
    return ClassicMembership(
        ClassicSettings(
            **common,
            assignors=assignors_of(settings.get("partition.assignment.strategy")),
            session_timeout_ms=settings.get("session.timeout.ms"),
            heartbeat_interval_ms=settings.get("heartbeat.interval.ms"),
        ),
        now_ms=now_ms,
    )
