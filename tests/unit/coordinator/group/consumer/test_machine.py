"""Consumer groups under any sequence of events: consumer and classic members join, leave, fail and miss responses,
topics change, coordinators move. No two members ever read one partition, and in the end every partition is read."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from harness.consumer_groups import GROUP, ConsumerHarness, HonestMember, Partitions
from harness.mixed_groups import ClassicConsumer, Phase
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.protocol.errors import ErrorCode

HEARTBEAT_MS = 5_000
TOPICS = ("water", "waste")
PEOPLE = range(5)
ONE_TOPIC_OR_BOTH = st.sampled_from([["water"], ["waste"], ["water", "waste"]])
LONG_ENOUGH = 60  # rounds of heartbeats until a group is stable


class MixedGroup(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = ConsumerHarness()
        self.new: dict[int, HonestMember] = {}
        self.classic: dict[int, ClassicConsumer] = {}
        self.names = 0

    @initialize(
        interval_ms=st.sampled_from([0, 1_000]), counts=st.tuples(st.integers(1, 5), st.integers(0, 5))
    )
    def begin(self, interval_ms: int, counts: tuple[int, int]) -> None:
        self.harness = ConsumerHarness(
            {
                "group.consumer.assignment.interval.ms": str(interval_ms),
                "group.initial.rebalance.delay.ms": "0",
            }
        )
        for name, count in zip(TOPICS, counts, strict=True):
            if count:
                self.harness.create_topic(name, count)

    # -- members

    @rule(
        who=st.sampled_from(PEOPLE),
        topics=ONE_TOPIC_OR_BOTH,
        kind=st.sampled_from(["dynamic", "static", "regex"]),
    )
    def come(self, who: int, topics: list[str], kind: str) -> None:
        if who in self.new:
            self.new[who].heartbeat()
            return
        self.names += 1
        member = HonestMember(self.harness, f"new-{who}-{self.names}", topics=topics)
        if kind == "static" and who not in self.classic:  # an instance id belongs to one process
            member.instance_id = f"instance-{who}"
        elif kind == "regex":
            member.topics, member.regex = [], "|".join(topics)
        response = member.heartbeat()
        if response.error_code is ErrorCode.NONE:
            self.new[who] = member

    @rule(
        who=st.sampled_from(PEOPLE), topics=ONE_TOPIC_OR_BOTH, is_eager=st.booleans(), is_static=st.booleans()
    )
    def come_as_classic(self, who: int, topics: list[str], is_eager: bool, is_static: bool) -> None:
        if who not in self.classic:
            instance_id = f"instance-{who}" if is_static and who not in self.new else None
            self.classic[who] = ClassicConsumer(
                self.harness, f"classic-{who}", is_eager=is_eager, topics=topics, instance_id=instance_id
            )
        self.classic[who].step()

    @rule(who=st.sampled_from(PEOPLE), topics=ONE_TOPIC_OR_BOTH)
    def subscribe_otherwise(self, who: int, topics: list[str]) -> None:
        member = self.new.get(who)
        if member is not None and member.is_in:
            member.subscribe(topics)

    @rule(who=st.sampled_from(PEOPLE))
    def lose_an_answer(self, who: int) -> None:
        member = self.new.get(who)
        if member is not None and member.is_in:
            member.lose_answer()

    @rule(who=st.sampled_from(PEOPLE), is_classic=st.booleans())
    def leave(self, who: int, is_classic: bool) -> None:
        if is_classic and who in self.classic:
            self.classic.pop(who).leave()
        elif who in self.new:
            self.new.pop(who).leave()

    @rule(who=st.sampled_from(PEOPLE))
    def leave_for_a_while(self, who: int) -> None:
        member = self.new.get(who)
        if member is not None and member.instance_id is not None:
            self.harness.heartbeat(member.member_id, -2, instance_id=member.instance_id)
            del self.new[who]

    @rule(who=st.sampled_from(PEOPLE), is_classic=st.booleans())
    def vanish(self, who: int, is_classic: bool) -> None:
        (self.classic if is_classic else self.new).pop(who, None)

    # -- topics, time and coordinator

    @rule(duration_ms=st.sampled_from([100, 2_000, 20_000, 70_000]))
    def pass_time(self, duration_ms: int) -> None:
        """All members send heartbeats."""
        while duration_ms > 0:
            step_ms = min(duration_ms, HEARTBEAT_MS)
            self.harness.advance(step_ms)
            duration_ms -= step_ms
            self.round()

    @rule(name=st.sampled_from(TOPICS), count=st.integers(1, 4))
    def create_or_grow(self, name: str, count: int) -> None:
        topic = self.harness.image.topics.get(name)
        if topic is None:
            self.harness.create_topic(name, count)
        else:
            self.harness.grow_topic(name, min(8, len(topic.partitions) + count))

    @rule(name=st.sampled_from(TOPICS))
    def delete(self, name: str) -> None:
        if name in self.harness.image.topics:
            self.harness.delete_topic(name)
            for member in self.everyone():
                member.forget_topic(name)

    @rule()
    def move_the_coordinator(self) -> None:
        self.harness = self.harness.reloaded()
        for member in self.everyone():
            member.harness = self.harness
        for classic in self.classic.values():
            if classic.phase in (Phase.JOINING, Phase.SYNCING):  # their responses are lost
                classic._join = classic._sync = None
                classic.phase = Phase.OUT

    @rule(who=st.sampled_from(PEOPLE))
    def move_the_coordinator_before_a_write_is_committed(self, who: int) -> None:
        """Uncommitted writes are lost without a response."""
        member = self.new.get(who)
        if member is not None and member.is_in:
            written = len(self.harness.log)
            member.lose_answer()
            del self.harness.log[written:]
            self.move_the_coordinator()

    # -- invariants

    @invariant()
    def nobody_reads_what_another_one_reads(self) -> None:
        seen: Partitions = set()
        for member in self.everyone():
            assert seen.isdisjoint(member.owned), (seen & member.owned, member)
            seen |= member.owned

    @invariant()
    def the_coordinator_knows_one_owner_at_most(self) -> None:
        group = self.harness.context.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            for (topic_id, partition), owners in self.harness.owners().items():
                assert owners == [group.owner_of(topic_id, partition)]

    @invariant()
    def what_is_counted_is_what_is_there(self) -> None:
        group = self.harness.context.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            members = group.members.values()
            assert group.classic_count == sum(member.is_classic for member in members)
            assert dict(group.subscriptions.by_name) == _count(name for m in members for name in m.topics)
            assert dict(group.subscriptions.regexes) == _count(m.regex for m in members if m.regex)
            assert set(group.resolved) <= set(group.subscriptions.regexes)

    def teardown(self) -> None:
        """Without more events, the group becomes stable, and every subscribed partition is read."""
        for classic in self.classic.values():
            if classic.phase is Phase.IN:
                classic.phase = Phase.OUT  # like a leader after a topic change: it rejoins
        for _ in range(LONG_ENOUGH):
            self.harness.advance(HEARTBEAT_MS)
            self.round()
            self.nobody_reads_what_another_one_reads()
        wanted = {
            (name, index)
            for name, topic in self.harness.image.topics.by_name.items()
            for index in range(len(topic.partitions))
            if any(self.reads(member, name) for member in self.everyone())
        }
        assert {one for member in self.everyone() for one in member.owned} == wanted

    # -- helpers

    def round(self) -> None:
        for member in [*self.everyone()]:
            if isinstance(member, HonestMember):
                member.heartbeat()
            else:
                member.step()
        self.harness.advance(0)

    def everyone(self) -> Iterator[HonestMember | ClassicConsumer]:
        yield from self.new.values()
        yield from self.classic.values()

    def reads(self, member: HonestMember | ClassicConsumer, name: str) -> bool:
        if isinstance(member, ClassicConsumer):
            return name in member.topics
        known = self.harness.group.members[member.member_id]
        return name in known.topics or name in known.regex.split("|")


def _count(names: Iterator[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


MixedGroup.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestMixedGroup = MixedGroup.TestCase
