"""The consumer's core, on one event loop: subscription, positions, fetching, the group, and pending work.

`aio` and `sync` call it. One poll is: call `process_pending` until no work is pending (rebalances, errors, due
commits), then take messages from `collector`, or `wait`. The assignment changes only inside `process_pending`, which
runs only when the application asks for more messages.

Everything here runs on the loop, except `has_pending_work`, which any thread may call.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from penstock.client import errors
from penstock.client.cluster import Cluster, TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.consumer.commits import Interceptors, consumed
from penstock.client.consumer.committer import Committer, Offsets, OnDone
from penstock.client.consumer.decoding import Decoding
from penstock.client.consumer.fetch_collector import FetchCollector
from penstock.client.consumer.fetch_plan import Fetched, FetchPlan, FetchSettings
from penstock.client.consumer.fetcher import Fetcher
from penstock.client.consumer.lookups import READ_COMMITTED, READ_UNCOMMITTED
from penstock.client.consumer.mode import Mode
from penstock.client.consumer.offset_finder import OffsetFinder, find_ends
from penstock.client.consumer.positions import EARLIEST, Positions, Reset, ResetPolicy
from penstock.client.consumer.queries import ClusterQueries
from penstock.client.consumer.read import PARTITION_BYTES, Bounds, Columns, ReadPlan
from penstock.client.consumer.topic_lookup import TOPIC_PATIENCE_MS, TopicLookup
from penstock.client.consumer.wakeup import Wakeup
from penstock.client.group.member import GroupMember
from penstock.client.group.types import Assigned, Event, GroupMetadata, Offset, Revoked, Subscription
from penstock.client.settings import ConsumerSettings
from penstock.protocol.errors import ErrorCode
from penstock.records.batch import NO_LEADER_EPOCH
from penstock.runtime.clock import Clock
from penstock.runtime.network import Network

logger = logging.getLogger(__name__)

POLL_NOTES_MS = 1_000

# A loop holds its tasks weakly. Only this set keeps the guard task alive until it is done.
_GUARDS: set[asyncio.Task[None]] = set()


class ConsumerCore:
    def __init__(
        self,
        settings: ConsumerSettings,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now_s` is the clock for the time between the application's calls."""
        self.settings = settings
        self._now_s = now_s
        self.client = ClusterClient(settings, network=network, clock=clock, rng=rng)
        self.interceptors = Interceptors(settings.get("interceptor.classes"))
        self.group_id: str | None = settings.get("group.id")
        self.member: GroupMember | None = None
        self.mode = Mode.NONE
        self.subscription = Subscription()
        self.has_listener = False
        is_committed_only = settings.get("isolation.level") == "read_committed"
        self._isolation_level = READ_COMMITTED if is_committed_only else READ_UNCOMMITTED
        self.queries = ClusterQueries(self.client, isolation_level=self._isolation_level)
        self.positions = Positions(
            ResetPolicy(settings.get("auto.offset.reset"), self.client.clock.wall_ms),
            has_group=self.group_id is not None,
            backoff=self.client.backoff,
        )
        fetch_settings = FetchSettings.of(settings, isolation_level=self._isolation_level)
        self.plan = FetchPlan(self.positions, fetch_settings, Decoding(settings).of)
        self.fetcher = Fetcher(
            self.client,
            self.positions,
            self.plan,
            on_news=self._on_fetched,
            on_lost_place=lambda: self._finder.wake(),
            on_failure=self._fail,
        )
        self.collector = FetchCollector(self.fetcher.ready, self.finished)
        self._finder = OffsetFinder(
            self.client,
            self.positions,
            isolation_level=self._isolation_level,
            committed=None if self.group_id is None else self._look_up_committed,
            on_found=self._on_found,
            on_failure=self._fail,
        )
        self._committer = Committer(settings, self.positions, self.interceptors, now_s)
        # How often the group learns that the application polls: often enough, but not with every poll.
        self._poll_notes_s = min(POLL_NOTES_MS, settings.get("max.poll.interval.ms") / 4) / 1000
        self._note_poll_at = 0.0
        self._has_pending = True
        """There is work for `process_pending`."""
        self._failure: BaseException | None = None
        self._topic_lookup = TopicLookup(
            self.client,
            on_learned=lambda: self._cluster_changed(self.client.cluster),
            on_failed=self._fail,
        )
        self._was_assigned = False
        self._guard: asyncio.Task[None] | None = None
        self._wakeup = Wakeup()
        self.is_started = False
        self.is_closed = False

    # Start and close

    def start(self) -> None:
        """Connect when a call first needs the cluster."""
        if self.is_closed:
            raise errors.ClientClosed
        if not self.is_started:
            self.is_started = True
            if self.group_id is not None:
                self.member = GroupMember(self.client, rng=self.client.random)
                self.member.on_event = self._wake_application
                self._committer.begin(self.member)
            self.client.on_update(self._cluster_changed)
            self._guard = asyncio.get_running_loop().create_task(self._close_when_abandoned())
            _GUARDS.add(self._guard)
            self._guard.add_done_callback(_GUARDS.discard)
            if self.mode is Mode.SUBSCRIBED and self.member is not None:
                self.member.subscribe(self.subscription.topics, pattern=self.subscription.pattern)
        if self.mode is not Mode.NONE:
            partitions = self.positions.partitions if self.mode is Mode.ASSIGNED else ()
            is_member = self.member is not None and self.mode is Mode.SUBSCRIBED
            self._topic_lookup.start(self.subscription, partitions, is_member=is_member)

    async def close(self, *, timeout_ms: int) -> None:
        """Leave the group and close everything. The caller has committed and notified the listener before."""
        if self.is_closed:
            return
        self.is_closed = True
        self._wakeup.wake()
        deadline_ms = self.client.deadline(timeout_ms)
        await self._committer.close(timeout_ms=timeout_ms)
        await self._topic_lookup.close()
        await self._finder.close()
        await self.fetcher.close()
        if self.member is not None and self.mode is Mode.SUBSCRIBED:
            left_ms = max(deadline_ms - self.client.now_ms(), 0)
            await self.member.leave("the consumer was closed", timeout_ms=left_ms)
        await self.client.close(timeout_ms=max(deadline_ms - self.client.now_ms(), 0))
        self.interceptors.close()
        if self._guard is not None:
            self._guard.cancel()
            await asyncio.gather(self._guard, return_exceptions=True)

    async def _close_when_abandoned(self) -> None:
        """If a consumer is garbage collected without `close`, its loop ends and cancels all tasks; this closes the
        sockets."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            if not self.is_closed:
                self.is_closed = True
                await self.client.close(timeout_ms=0)

    async def revoke_all(self, *, timeout_ms: int) -> Event | None:
        """Before leaving: commit the consumed offsets, and return the event for the listener."""
        if not self.is_started or self.is_closed:
            return None
        await self._committer.commit_quietly(consumed(self.positions), self.client.deadline(timeout_ms))
        if self.member is None or self.mode is not Mode.SUBSCRIBED:
            return None
        return self.member.revoke_all()

    # Subscription

    def subscribe(self, subscription: Subscription, *, has_listener: bool) -> None:
        if self.mode is Mode.ASSIGNED:
            raise errors.IllegalState(
                "partitions were assigned with assign(); call unsubscribe() before subscribe()"
            )
        self.mode = Mode.SUBSCRIBED
        self.subscription = subscription
        self.has_listener = has_listener
        if self.group_id is None:
            self._reassign([each for each in self.positions.partitions if each.topic in subscription.topics])
        self._subscription_changed()
        if self.is_started and self.member is not None:
            self.member.subscribe(subscription.topics, pattern=subscription.pattern)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        if self.mode is Mode.SUBSCRIBED:
            raise errors.IllegalState(
                "topics were subscribed to with subscribe(); call unsubscribe() before assign()"
            )
        self.mode = Mode.ASSIGNED
        self._reassign(partitions)
        self._subscription_changed()

    async def unsubscribe(self) -> None:
        if self.member is not None and self.mode is Mode.SUBSCRIBED:
            await self.member.leave("unsubscribed")
        self.forget()

    def forget(self) -> None:
        """Drop the subscription and the assignment."""
        self.mode = Mode.NONE
        self.subscription = Subscription()
        self._reassign(())
        self._subscription_changed()

    def _subscription_changed(self) -> None:
        self._was_assigned = False
        self._topic_lookup.forget()
        if self.is_started and self.mode is not Mode.NONE:
            self.start()

    def _cluster_changed(self, cluster: Cluster) -> None:
        if self.is_closed:
            return
        if self.mode is Mode.SUBSCRIBED and self.group_id is None and self._topic_lookup.is_done:
            self._assign_all(cluster)
        self._wake_workers()

    def _assign_all(self, cluster: Cluster) -> None:
        """Without a group this consumer reads all partitions. New ones are read from their first record."""
        with_internal = not self.settings.get("exclude.internal.topics")
        names = self.subscription.matched(cluster, with_internal=with_internal)
        found = {each for name in names for each in cluster.partitions_of(name)}
        is_first = not len(self.positions)
        before = self.positions.partitions
        kept = [each for each in before if each.topic in names]
        wanted = [*kept, *sorted(found.difference(kept))]
        if len(wanted) == len(kept) == len(before):
            return
        # The application may be reading a partition now, so the present ones are not touched.
        added = self.positions.assign(wanted)
        if not is_first:
            self.positions.reset(added, EARLIEST)
        if any(state.error is not None for state in self.positions):
            self._wake_application()

    def _reassign(self, partitions: Collection[TopicPartition]) -> tuple[TopicPartition, ...]:
        self.collector.drop([each for each in self.positions.partitions if each not in partitions])
        added = self.positions.assign(partitions)
        self._purge()
        if self.is_started:
            self._wake_workers()
        if any(state.error is not None for state in self.positions):
            self._wake_application()
        return added

    # Pending work

    def has_pending_work(self) -> bool:
        """Whether `process_pending` has work to do. Any thread may call it."""
        if self._has_pending or not self.is_started:
            return True
        if self.member is None:
            return False
        return self._now_s() >= self._note_poll_at or self._committer.is_due

    async def process_pending(self) -> Event | None:
        """Do the pending work. If it returns an event, notify the listener and then call `complete`."""
        self.start()
        self._has_pending = False
        if (failure := self._take_failure()) is not None:
            self._has_pending = True
            self._wake_workers()
            raise failure
        if self.mode is Mode.NONE:
            raise errors.IllegalState("nothing to read: call subscribe() or assign() first")
        if self.member is None:
            return None
        self._committer.commit_if_due()
        self._note_poll_at = self._now_s() + self._poll_notes_s
        if self.mode is Mode.ASSIGNED:
            return None
        self.member.note_poll()
        while (event := self.member.next_event()) is not None:
            self._has_pending = True
            await self._prepare(event)
            if self.has_listener:
                return event
            self.complete(event)
        return None

    def _take_failure(self) -> BaseException | None:
        """The error to raise in the application, once."""
        failure, self._failure = self._failure, None
        return failure or self.positions.take_error()

    async def _prepare(self, event: Event) -> None:
        assert self.member is not None
        if isinstance(event, Assigned):
            self._reassign([*self.positions.partitions, *event.partitions])
        elif isinstance(event, Revoked):
            self.collector.drop(event.partitions)
            offsets = {each: at for each, at in consumed(self.positions).items() if each in event.partitions}
            await self._committer.commit_quietly(offsets, self.client.deadline())

    def complete(self, event: Event) -> None:
        """The listener was notified of the event."""
        assert self.member is not None
        if isinstance(event, Assigned):
            self._was_assigned = True
        else:
            revoked = set(event.partitions)
            self._reassign([each for each in self.positions.partitions if each not in revoked])
            self._committer.forget(revoked)
        self.member.acknowledge(event)

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until there are messages or pending work, or until the timeout."""
        if self.has_data() or self._has_pending or self.is_closed:
            return
        if self.member is not None:
            # While the application waits, its polls are still noted and automatic commits are still sent.
            quiet_s = self._poll_notes_s
            if self._committer.is_automatic:
                quiet_s = min(quiet_s, self._committer.due_in_s + 0.001)
            timeout_s = quiet_s if timeout_s is None else min(timeout_s, quiet_s)
        await self._wakeup.wait(timeout_s)

    def interrupt(self) -> None:
        """Wake a waiting call: the consumer is about to close."""
        self._wake_application()

    def has_data(self) -> bool:
        return any(not fetched.state.is_held for fetched in self.fetcher.ready)

    # Positions

    def seek(self, partition: TopicPartition, offset: int, epoch: int = NO_LEADER_EPOCH) -> None:
        self.positions.of(partition)
        self.collector.drop([partition])
        self.positions.seek(partition, offset, epoch)
        self._moved()

    def reset(self, partitions: Collection[TopicPartition], reset: Reset) -> None:
        wanted = partitions or self.positions.partitions
        self.collector.drop(wanted)
        self.positions.reset(wanted, reset)
        self._moved()

    def rewind(self) -> None:
        """Return to the last commit."""
        self.collector.drop(self.positions.partitions)
        self.positions.rewind()
        self._moved()

    def pause(self, partitions: Collection[TopicPartition], *, is_paused: bool) -> None:
        states = [self.positions.of(partition) for partition in partitions]
        if is_paused and (dropped := self.collector.drop(partitions)) is not None:
            dropped.fetch_again()  # the rest of it is fetched again after `resume`
        for state in states:
            state.is_paused = is_paused
        self._moved()

    def _purge(self) -> None:
        self.collector.restore()
        self.fetcher.purge()

    def _moved(self) -> None:
        self._purge()
        if self.is_started:
            self._wake_workers()

    async def position(self, partition: TopicPartition, deadline_ms: int) -> int:
        """The position of a partition; waits until it is known."""
        self.start()
        state = self.positions.of(partition)
        await self.until(lambda: state.has_position, deadline_ms, f"position in {partition}")
        return state.offset

    async def until(self, is_done: Callable[[], bool], deadline_ms: int, what: str) -> None:
        """Wait for a condition; raises an error that comes up meanwhile."""
        while not is_done():
            if (failure := self._take_failure()) is not None:
                raise failure
            left_ms = deadline_ms - self.client.now_ms()
            if left_ms <= 0:
                raise errors.TimedOut(f"could not find the {what} in time")
            await self._wakeup.wait(left_ms / 1000)

    # Bounded reads

    @property
    def has_assignment(self) -> bool:
        """Whether partitions have been assigned at least once."""
        if self.mode is Mode.SUBSCRIBED and self.group_id is not None:
            return self._was_assigned
        return self._topic_lookup.is_done

    def not_assigned(self, patience_s: float) -> errors.PenstockError:
        """The error to raise if no partition was assigned in time."""
        for name in sorted(self.subscription.topics):
            topic = self.client.cluster.topics.get(name)
            if topic is not None and topic.error is not ErrorCode.NONE:
                return errors.of(topic.error, about=name)
        return errors.TimedOut(f"no partitions were assigned within {patience_s:g} s")

    async def begin_read(
        self, bounds: Bounds, deadline_ms: int, *, limit: int | None, columns: Columns
    ) -> ReadPlan:
        """Find the position and the end of each partition. A topic that does not exist is an error here, also with a
        group: an empty result would look as if the topic had no records."""
        if self.subscription.topics:
            await self.client.topics(
                self.subscription.topics, deadline_ms=deadline_ms, patience_ms=TOPIC_PATIENCE_MS
            )
        wanted = self.positions.partitions if bounds.offsets is None else bounds.offsets
        states = [self.positions.of(partition) for partition in wanted]
        await self.until(lambda: all(state.has_position for state in states), deadline_ms, "positions")
        ends = bounds.offsets
        if ends is None:
            find = partial(self.queries.list_offsets, deadline_ms=deadline_ms)
            ends = await find_ends(wanted, younger_than=bounds.timestamp, list_offsets=find)
        if not self.settings.is_set("max.partition.fetch.bytes"):
            self.plan.settings = replace(self.plan.settings, partition_bytes_max=PARTITION_BYTES)
        plan = ReadPlan(self.positions, ends, limit=limit, columns=columns)
        self.collector.restore()
        self._wake_workers()
        return plan

    def end_read(self, plan: ReadPlan) -> None:
        plan.release()
        self.collector.restore()
        bytes_max = self.settings.get("max.partition.fetch.bytes")
        self.plan.settings = replace(self.plan.settings, partition_bytes_max=bytes_max)
        if self.is_started and not self.is_closed:
            self._wake_workers()

    # Commits

    async def commit(self, offsets: Offsets | None, deadline_ms: int) -> None:
        """Commit these offsets, or those of all messages returned so far."""
        self._require_group("committing offsets")
        await self._committer.commit(offsets, deadline_ms)

    def commit_in_background(self, offsets: Offsets | None, on_done: OnDone | None) -> None:
        self._require_group("committing offsets")
        self._committer.commit_in_background(offsets, on_done)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, Offset]:
        member = self._require_group("looking up committed offsets")
        names = {each.topic for each in partitions}
        await self.client.topics(names, deadline_ms=deadline_ms, patience_ms=TOPIC_PATIENCE_MS)
        return await member.committed(partitions, deadline_ms=deadline_ms)

    @property
    def group_metadata(self) -> GroupMetadata:
        return self._require_group("group_metadata()").metadata

    def _require_group(self, what: str) -> GroupMember:
        if self.group_id is None:
            raise errors.IllegalState(f"{what} needs a consumer with a group.id", about="group.id")
        self.start()
        assert self.member is not None
        return self.member

    async def _look_up_committed(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        assert self.member is not None
        return await self.member.committed(partitions)

    # Callbacks

    def finished(self, fetched: Fetched) -> None:
        """From the collector: data was consumed or dropped, so there is room for more."""
        self.fetcher.finished(fetched)

    def _wake_workers(self) -> None:
        self.fetcher.wake()
        self._finder.wake()

    def _on_fetched(self, has_errors: bool) -> None:
        self._has_pending |= has_errors
        self._wakeup.wake()

    def _on_found(self, has_errors: bool) -> None:
        self._has_pending |= has_errors
        self._wake_workers()
        self._wakeup.wake()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._wake_application()

    def _wake_application(self) -> None:
        self._has_pending = True
        self._wakeup.wake()
