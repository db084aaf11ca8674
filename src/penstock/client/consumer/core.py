"""The consumer itself, on one event loop: subscription, positions, fetching, the group, and what is owed to it.

The faces (`aio`, `sync`) call it. A poll is: `attend` until nothing is owed (rebalances, errors, commits that are due),
then take from `handout`, else `wait`. Nothing that concerns the application happens in between: an assignment changes
only inside `attend`, which is called only when the application asks for more.

Everything here runs on the loop, except `has_business`, which an application's thread may ask.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from penstock.client import errors
from penstock.client.backoff import Backoff
from penstock.client.cluster import NO_EPOCH, Cluster, TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.consumer.bell import Bell
from penstock.client.consumer.commits import Interceptors, consumed
from penstock.client.consumer.committer import Committer, Offsets, OnDone
from penstock.client.consumer.decoding import Decoding
from penstock.client.consumer.fetch_plan import Fetched, FetchPlan, FetchSettings
from penstock.client.consumer.fetcher import Fetcher
from penstock.client.consumer.finder import Finder, find_ends
from penstock.client.consumer.handout import Handout
from penstock.client.consumer.lookups import READ_COMMITTED, READ_UNCOMMITTED
from penstock.client.consumer.mode import Mode
from penstock.client.consumer.positions import EARLIEST, Positions, Reset, ResetPolicy
from penstock.client.consumer.questions import Questions
from penstock.client.consumer.read import PARTITION_BYTES, Bounds, Columns, ReadPlan
from penstock.client.consumer.topics import TOPIC_PATIENCE_MS, TopicLearner
from penstock.client.group.member import GroupMember
from penstock.client.group.nouns import Assigned, Event, GroupMetadata, Offset, Revoked, Subscription
from penstock.client.settings import ConsumerSettings
from penstock.protocol.errors import ErrorCode
from penstock.runtime.clock import Clock
from penstock.runtime.network import Network

logger = logging.getLogger(__name__)

POLL_NOTES_MS = 1_000

# A loop holds its tasks weakly, and this one waits for what only itself knows: it would be collected before its end.
_GUARDS: set[asyncio.Task[None]] = set()


class ConsumerCore:
    def __init__(
        self,
        settings: ConsumerSettings,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now_s` tells the time between calls of the application, wherever that runs."""
        self.settings = settings
        self._now_s = now_s
        self.client = ClusterClient(settings, network=network, clock=clock)
        self.interceptors = Interceptors(settings.get("interceptor.classes"))
        self.group_id: str | None = settings.get("group.id")
        self.member: GroupMember | None = None
        self.mode = Mode.NONE
        self.subscription = Subscription()
        self.has_listener = False
        is_committed_only = settings.get("isolation.level") == "read_committed"
        self._isolation_level = READ_COMMITTED if is_committed_only else READ_UNCOMMITTED
        self.questions = Questions(self.client, isolation_level=self._isolation_level)
        self.positions = Positions(
            ResetPolicy(settings.get("auto.offset.reset"), self.client.clock.wall_ms),
            has_group=self.group_id is not None,
            backoff=Backoff(settings.get("retry.backoff.ms"), settings.get("retry.backoff.max.ms")),
        )
        fetch_settings = FetchSettings.of(settings, isolation_level=self._isolation_level)
        self.plan = FetchPlan(self.positions, fetch_settings, Decoding(settings).of)
        self.fetcher = Fetcher(
            self.client,
            self.positions,
            self.plan,
            on_news=self._news,
            on_lost_place=lambda: self._finder.wake(),
            on_failure=self._fail,
        )
        self.handout = Handout(self.fetcher.ready, self.finished)
        self._finder = Finder(
            self.client,
            self.positions,
            isolation_level=self._isolation_level,
            committed=None if self.group_id is None else self._look_up_committed,
            on_found=self._found,
            on_failure=self._fail,
        )
        self._committer = Committer(settings, self.positions, self.interceptors, now_s)
        # How often the group is told that the application is alive: often enough, and not with every portion.
        self._poll_notes_s = min(POLL_NOTES_MS, settings.get("max.poll.interval.ms") / 4) / 1000
        self._note_poll_at = 0.0
        self._has_news = True
        """Something waits for `attend`."""
        self._failure: BaseException | None = None
        self._learner = TopicLearner(
            self.client,
            on_learned=lambda: self._cluster_changed(self.client.cluster),
            on_failed=self._fail,
        )
        self._was_assigned = False
        self._guard: asyncio.Task[None] | None = None
        self._bell = Bell()
        self.is_started = False
        self.is_closed = False

    # Beginning and end

    def start(self) -> None:
        """Connect, when something first needs the cluster."""
        if self.is_closed:
            raise errors.ClientClosed
        if not self.is_started:
            self.is_started = True
            if self.group_id is not None:
                self.member = GroupMember(self.client)
                self.member.on_event = self._call_attention
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
            self._learner.learn(self.subscription, partitions, is_member=is_member)

    async def close(self, *, timeout_ms: int) -> None:
        """Leave the group and end everything. The faces have committed and told the listener before."""
        if self.is_closed:
            return
        self.is_closed = True
        self._bell.ring()
        deadline_ms = self.client.deadline(timeout_ms)
        await self._committer.close(timeout_ms=timeout_ms)
        await self._learner.close()
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
        """A consumer that is collected unclosed takes its loop along, which cancels all tasks; sockets are closed."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            if not self.is_closed:
                self.is_closed = True
                await self.client.close(timeout_ms=0)

    async def let_go(self, *, timeout_ms: int) -> Event | None:
        """Before the end: commit what was given, and what the listener has to be told."""
        if not self.is_started or self.is_closed:
            return None
        await self._committer.commit_quietly(consumed(self.positions), self.client.deadline(timeout_ms))
        if self.member is None or self.mode is not Mode.SUBSCRIBED:
            return None
        return self.member.let_go()

    # What is read

    def subscribe(self, subscription: Subscription, *, has_listener: bool) -> None:
        if self.mode is Mode.ASSIGNED:
            raise errors.IllegalState(
                "partitions were assigned by hand; unsubscribe() before topics are subscribed to"
            )
        self.mode = Mode.SUBSCRIBED
        self.subscription = subscription
        self.has_listener = has_listener
        if self.group_id is None:
            self._reassign([each for each in self.positions.partitions if each.topic in subscription.topics])
        self._want_anew()
        if self.is_started and self.member is not None:
            self.member.subscribe(subscription.topics, pattern=subscription.pattern)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        if self.mode is Mode.SUBSCRIBED:
            raise errors.IllegalState(
                "topics are subscribed to; unsubscribe() before partitions are assigned"
            )
        self.mode = Mode.ASSIGNED
        self._reassign(partitions)
        self._want_anew()

    async def unsubscribe(self) -> None:
        if self.member is not None and self.mode is Mode.SUBSCRIBED:
            await self.member.leave("unsubscribed")
        self.forget()

    def forget(self) -> None:
        """Read nothing."""
        self.mode = Mode.NONE
        self.subscription = Subscription()
        self._reassign(())
        self._want_anew()

    def _want_anew(self) -> None:
        self._was_assigned = False
        self._learner.forget()
        if self.is_started and self.mode is not Mode.NONE:
            self.start()

    def _cluster_changed(self, cluster: Cluster) -> None:
        if self.is_closed:
            return
        if self.mode is Mode.SUBSCRIBED and self.group_id is None and self._learner.is_done:
            self._take_all(cluster)
        self._progressed()

    def _take_all(self, cluster: Cluster) -> None:
        """Without a group all partitions are this consumer's; new ones are read from their first record."""
        with_internal = not self.settings.get("exclude.internal.topics")
        names = self.subscription.matched(cluster, with_internal=with_internal)
        found = {each for name in names for each in cluster.partitions_of(name)}
        is_first = not len(self.positions)
        before = self.positions.partitions
        kept = [each for each in before if each.topic in names]
        wanted = [*kept, *sorted(found.difference(kept))]
        if len(wanted) == len(kept) == len(before):
            return
        # The application may be in the midst of a partition just now, so nothing that is here is touched.
        added = self.positions.assign(wanted)
        if not is_first:
            self.positions.reset(added, EARLIEST)
        if any(state.error is not None for state in self.positions):
            self._call_attention()

    def _reassign(self, partitions: Collection[TopicPartition]) -> tuple[TopicPartition, ...]:
        self.handout.drop([each for each in self.positions.partitions if each not in partitions])
        added = self.positions.assign(partitions)
        self._purge()
        if self.is_started:
            self._progressed()
        if any(state.error is not None for state in self.positions):
            self._call_attention()
        return added

    # What is owed before messages are given

    def has_business(self) -> bool:
        """Whether `attend` has something to do. May be asked by any thread."""
        if self._has_news or not self.is_started:
            return True
        if self.member is None:
            return False
        return self._now_s() >= self._note_poll_at or self._committer.is_due

    async def attend(self) -> Event | None:
        """Do what is owed. An event of the group is returned for the listener to hear of, and `settle` comes next."""
        self.start()
        self._has_news = False
        if (failure := self._take_failure()) is not None:
            self._has_news = True
            self._progressed()
            raise failure
        if self.mode is Mode.NONE:
            raise errors.IllegalState("nothing is subscribed to and nothing is assigned")
        if self.member is None:
            return None
        self._committer.commit_what_is_due()
        self._note_poll_at = self._now_s() + self._poll_notes_s
        if self.mode is Mode.ASSIGNED:
            return None
        self.member.note_poll()
        while (event := self.member.next_event()) is not None:
            self._has_news = True
            await self._prepare(event)
            if self.has_listener:
                return event
            self.settle(event)
        return None

    def _take_failure(self) -> BaseException | None:
        """What the application has to be told, once."""
        failure, self._failure = self._failure, None
        return failure or self.positions.take_error()

    async def _prepare(self, event: Event) -> None:
        assert self.member is not None
        if isinstance(event, Assigned):
            self._reassign([*self.positions.partitions, *event.partitions])
        elif isinstance(event, Revoked):
            self.handout.drop(event.partitions)
            offsets = {each: at for each, at in consumed(self.positions).items() if each in event.partitions}
            await self._committer.commit_quietly(offsets, self.client.deadline())

    def settle(self, event: Event) -> None:
        """The listener has heard of it."""
        assert self.member is not None
        if isinstance(event, Assigned):
            self._was_assigned = True
        else:
            gone = set(event.partitions)
            self._reassign([each for each in self.positions.partitions if each not in gone])
            self._committer.forget(gone)
        self.member.acknowledge(event)

    async def wait(self, timeout_s: float | None) -> None:
        """Until there is something to take or to attend to, or the time is up."""
        if self.handout_has_some() or self._has_news or self.is_closed:
            return
        if self.member is not None:
            # The group must hear of the application while it waits, and commits must go out.
            quiet_s = self._poll_notes_s
            if self._committer.is_automatic:
                quiet_s = min(quiet_s, self._committer.due_in_s + 0.001)
            timeout_s = quiet_s if timeout_s is None else min(timeout_s, quiet_s)
        await self._bell.wait(timeout_s)

    def interrupt(self) -> None:
        """Wake whoever waits: the consumer is about to be closed."""
        self._call_attention()

    def handout_has_some(self) -> bool:
        return any(not fetched.state.is_held for fetched in self.fetcher.ready)

    # Positions

    def seek(self, partition: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        self.positions.of(partition)
        self.handout.drop([partition])
        self.positions.seek(partition, offset, epoch)
        self._moved()

    def reset(self, partitions: Collection[TopicPartition], reset: Reset) -> None:
        wanted = partitions or self.positions.partitions
        self.handout.drop(wanted)
        self.positions.reset(wanted, reset)
        self._moved()

    def rewind(self) -> None:
        """Give everything again that was given since the last commit."""
        self.handout.drop(self.positions.partitions)
        self.positions.rewind()
        self._moved()

    def pause(self, partitions: Collection[TopicPartition], *, is_paused: bool) -> None:
        states = [self.positions.of(partition) for partition in partitions]
        if is_paused and (dropped := self.handout.drop(partitions)) is not None:
            dropped.fetch_again()  # what is left of it is wanted later
        for state in states:
            state.is_paused = is_paused
        self._moved()

    def _purge(self) -> None:
        self.handout.restore()
        self.fetcher.purge()

    def _moved(self) -> None:
        self._purge()
        if self.is_started:
            self._progressed()

    async def position(self, partition: TopicPartition, deadline_ms: int) -> int:
        """Where the application goes on; found, where it is not known yet."""
        self.start()
        state = self.positions.of(partition)
        await self.until(lambda: state.has_position, deadline_ms, f"position in {partition}")
        return state.offset

    async def until(self, is_done: Callable[[], bool], deadline_ms: int, what: str) -> None:
        """Wait while others find out; raises what they find wrong."""
        while not is_done():
            if (failure := self._take_failure()) is not None:
                raise failure
            left_ms = deadline_ms - self.client.now_ms()
            if left_ms <= 0:
                raise errors.TimedOut(f"no {what} in time")
            await self._bell.wait(left_ms / 1000)

    # Bounded reads

    @property
    def has_assignment(self) -> bool:
        """What this consumer reads has been decided, at least once."""
        if self.mode is Mode.SUBSCRIBED and self.group_id is not None:
            return self._was_assigned
        return self._learner.is_done

    def not_assigned(self, patience_s: float) -> errors.PenstockError:
        """Why there is nothing to read after so long."""
        for name in sorted(self.subscription.topics):
            topic = self.client.cluster.topics.get(name)
            if topic is not None and topic.error is not ErrorCode.NONE:
                return errors.of(topic.error, about=name)
        return errors.TimedOut(f"no partitions were assigned within {patience_s:g} s")

    async def begin_read(
        self, bounds: Bounds, deadline_ms: int, *, limit: int | None, columns: Columns
    ) -> ReadPlan:
        """Find where each partition stands and where it ends. A topic that does not exist is an error here, also with a
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
            find = partial(self.questions.list_offsets, deadline_ms=deadline_ms)
            ends = await find_ends(wanted, younger_than=bounds.timestamp, list_offsets=find)
        if not self.settings.is_set("max.partition.fetch.bytes"):
            self.plan.settings = replace(self.plan.settings, partition_bytes_max=PARTITION_BYTES)
        plan = ReadPlan(self.positions, ends, limit=limit, columns=columns)
        self.handout.restore()
        self._progressed()
        return plan

    def end_read(self, plan: ReadPlan) -> None:
        plan.release()
        self.handout.restore()
        bytes_max = self.settings.get("max.partition.fetch.bytes")
        self.plan.settings = replace(self.plan.settings, partition_bytes_max=bytes_max)
        if self.is_started and not self.is_closed:
            self._progressed()

    # Commits

    async def commit(self, offsets: Offsets | None, deadline_ms: int) -> None:
        """These, or what the application has been given."""
        self._grouped("offsets can be committed")
        await self._committer.commit(offsets, deadline_ms)

    def commit_soon(self, offsets: Offsets | None, on_done: OnDone | None) -> None:
        self._grouped("offsets can be committed")
        self._committer.commit_soon(offsets, on_done)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, Offset]:
        member = self._grouped("committed offsets can be looked up")
        names = {each.topic for each in partitions}
        await self.client.topics(names, deadline_ms=deadline_ms, patience_ms=TOPIC_PATIENCE_MS)
        return await member.committed(partitions, deadline_ms=deadline_ms)

    @property
    def group_metadata(self) -> GroupMetadata:
        return self._grouped("there is a membership").metadata

    def _grouped(self, what: str) -> GroupMember:
        if self.group_id is None:
            raise errors.IllegalState(f"{what} only by a consumer with a group", about="group.id")
        self.start()
        assert self.member is not None
        return self.member

    async def _look_up_committed(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        assert self.member is not None
        return await self.member.committed(partitions)

    # What others tell

    def finished(self, fetched: Fetched) -> None:
        """From the handout: it was consumed or dropped, and there is room for more."""
        self.fetcher.finished(fetched)

    def _progressed(self) -> None:
        self.fetcher.wake()
        self._finder.wake()

    def _news(self, has_errors: bool) -> None:
        self._has_news |= has_errors
        self._bell.ring()

    def _found(self, has_errors: bool) -> None:
        self._has_news |= has_errors
        self._progressed()
        self._bell.ring()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._call_attention()

    def _call_attention(self) -> None:
        self._has_news = True
        self._bell.ring()
