"""Our assignors compared with Apache Kafka's, on random groups.

Range and round robin must give the same result. The sticky ones may differ, because Kafka's depend on the order of hash
tables, but must never be worse: at least as even, and if equally even, with at least as many partitions kept.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oracle import java
from penstock.client.cluster import TopicPartition
from penstock.client.group.assignors import (
    Assignor,
    GroupSubscription,
    MemberSubscription,
    ReceivedAssignment,
    assignors_of,
)
from penstock.client.group.assignors.balance import racks_matter
from penstock.client.group.assignors.user_data import read_previous

PROGRAM = Path(__file__).with_name("AssignorOracle.java")
RUN_SECONDS_MAX = 120
GROUPS = 300

Assignment = Mapping[str, Sequence[TopicPartition]]


def ask_kafka(java_class: str, groups: Sequence[GroupSubscription]) -> list[dict[str, list[TopicPartition]]]:
    lines = [json.dumps({"assignor": java_class, **as_json(group)}) for group in groups]
    flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    classpath = os.pathsep.join(java.new_classpath())
    finished = subprocess.run(
        ["java", *flags, "-cp", classpath, str(PROGRAM)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    answers = [line for line in finished.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(groups)
    return [
        {member: [TopicPartition(*each) for each in share] for member, share in json.loads(answer).items()}
        for answer in answers
    ]


def as_json(group: GroupSubscription) -> dict[str, Any]:
    return {
        "topics": {topic: [sorted(racks) for racks in each] for topic, each in group.racks.items()},
        "members": {
            member.member_id: {
                "topics": member.topics,
                "owned": member.owned,
                "generation": member.generation,
                "rack": member.rack,
                "instance": member.instance_id,
                "user_data": (member.user_data or b"").hex(),
            }
            for member in group.members.values()
        },
    }


def some_group(rng: random.Random, *, with_racks: bool, is_uniform: bool) -> GroupSubscription:
    racks = ["east", "west", "north"]
    topics = {
        f"topic{number}": tuple(
            frozenset(rng.sample(racks, rng.choice((1, 1, 2)))) if with_racks else frozenset[str]()
            for _ in range(rng.choice((1, 2, 3, 5, 8, 8)))
        )
        for number in range(rng.randint(1, 5))
    }
    members = {}
    for number in range(rng.randint(1, 7)):
        wanted = list(topics) if is_uniform else rng.sample(list(topics), rng.randint(1, len(topics)))
        wanted += ["there is no such topic"] * rng.choice((0, 0, 0, not is_uniform))
        members[f"member{number}"] = MemberSubscription(
            f"member{number}",
            tuple(wanted),
            instance_id=f"instance{rng.randint(0, 10**6)}" if rng.random() < 0.3 else None,
            rack=rng.choice([*racks, "nowhere", None]) if with_racks else None,
        )
    return GroupSubscription(members, topics)


def with_history(rng: random.Random, group: GroupSubscription, assignor: Assignor) -> GroupSubscription:
    """The same group, after members came, left and changed, and topics grew."""
    before = assignors_of("roundrobin")[0].assign(group)
    members = {}
    for member_id, member in group.members.items():
        had = tuple(each for each in before[member_id] if rng.random() < 0.9)
        if rng.random() < 0.25:
            members[member_id] = member  # a new one
            continue
        generation = rng.choice((3, 3, 3, 2))
        received = ReceivedAssignment(had, generation)
        members[member_id] = replace(
            member,
            owned=had if assignor.is_cooperative else (),
            generation=generation,
            user_data=assignor.user_data(member.topics, received),
        )
    for member_id in rng.sample(list(members), rng.randint(0, len(members) - 1)):
        if rng.random() < 0.5:
            del members[member_id]
    if rng.random() < 0.3:  # several members claim the same partition
        one = rng.choice(list(members))
        other = members[rng.choice(list(members))]
        members[one] = replace(
            members[one],
            owned=other.owned,
            user_data=other.user_data,
            generation=rng.choice((other.generation, members[one].generation)),
        )
    topics = {
        topic: each + (frozenset(),) * rng.randint(0, 3) if rng.random() < 0.3 else each
        for topic, each in group.racks.items()
    }
    return GroupSubscription(members, topics)


def check_is_valid(group: GroupSubscription, assignment: Assignment, *, is_complete: bool = True) -> None:
    given = [each for share in assignment.values() for each in share]
    assert len(given) == len(set(given)), "given twice"
    for member_id, share in assignment.items():
        assert {each.topic for each in share} <= set(group.members[member_id].topics)
    if is_complete:
        wanted = {topic for member in group.members.values() for topic in member.topics}
        assert set(given) == {
            TopicPartition(topic, index)
            for topic in wanted & set(group.racks)
            for index in range(group.partitions(topic))
        }


def size(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def unevenness(assignment: Assignment) -> int:
    """The sum of differences between partition counts over all pairs: Kafka's balance score."""
    sizes = [len(share) for share in assignment.values()]
    return sum(abs(one - other) for one in sizes for other in sizes)


def kept(assignment: Assignment, owned: Mapping[str, set[TopicPartition]]) -> int:
    return sum(len(owned[member_id] & set(share)) for member_id, share in assignment.items())


def far(group: GroupSubscription, assignment: Assignment) -> int:
    """How many partitions have no replica in their member's rack."""
    return sum(
        rack not in group.racks[each.topic][each.partition]
        for member_id, share in assignment.items()
        if (rack := group.members[member_id].rack) is not None
        for each in share
    )


@pytest.mark.parametrize(
    ("name", "java_class"), [("range", "RangeAssignor"), ("roundrobin", "RoundRobinAssignor")]
)
def test_range_and_round_robin_match_kafka(name: str, java_class: str) -> None:
    rng = random.Random(name)
    groups = [
        some_group(rng, with_racks=number % 2 == 0, is_uniform=rng.random() < 0.5) for number in range(GROUPS)
    ]
    (assignor,) = assignors_of(java_class)

    for group, theirs in zip(groups, ask_kafka(java_class, groups), strict=True):
        ours = assignor.assign(group)
        check_is_valid(group, ours)
        assert {member: sorted(share) for member, share in ours.items()} == {
            member: sorted(share) for member, share in theirs.items()
        }, group


def groups_with_history(assignor: Assignor) -> list[GroupSubscription]:
    rng = random.Random(assignor.name)
    return [
        with_history(
            rng, some_group(rng, with_racks=number % 2 == 0, is_uniform=rng.random() < 0.5), assignor
        )
        for number in range(GROUPS)
    ]


def test_sticky_is_at_least_as_even_and_sticky_as_kafka() -> None:
    (assignor,) = assignors_of("sticky")
    groups = groups_with_history(assignor)

    for group, theirs in zip(groups, ask_kafka("StickyAssignor", groups), strict=True):
        ours = assignor.assign(group)
        check_is_valid(group, ours)
        compare(assignor, group, ours, theirs)


def test_cooperative_sticky_is_at_least_as_even_and_sticky_as_kafka() -> None:
    (assignor,) = assignors_of("cooperative-sticky")
    groups = groups_with_history(assignor)

    theirs = groups
    ours = groups
    for _ in range(3):  # no partition moves directly: its owner revokes it first, and all rejoin
        theirs_assigned = ask_kafka("CooperativeStickyAssignor", theirs)
        ours_assigned = [assignor.assign(group) for group in ours]
        for group, assigned in zip(ours, ours_assigned, strict=True):
            check_is_valid(group, assigned, is_complete=False)
            check_nobody_gets_what_another_has(group, assigned)
        theirs = [joined_again(group, each) for group, each in zip(theirs, theirs_assigned, strict=True)]
        ours = [joined_again(group, each) for group, each in zip(ours, ours_assigned, strict=True)]
    for group, our_end, their_end in zip(groups, ours_assigned, theirs_assigned, strict=True):
        check_is_valid(group, our_end)
        if size(their_end) == size(our_end):  # with racks, Kafka's own may still be rebalancing
            compare(assignor, group, our_end, their_end)


def check_nobody_gets_what_another_has(group: GroupSubscription, assigned: Assignment) -> None:
    for member_id, share in assigned.items():
        generation = group.members[member_id].generation
        for other in group.members.values():
            taken = set(share) & set(other.owned)
            if other.member_id != member_id and taken:
                # Only what it had itself, and what another member claims from an older generation.
                assert taken <= set(group.members[member_id].owned)
                assert other.generation < generation


def joined_again(group: GroupSubscription, assigned: Assignment) -> GroupSubscription:
    members = {
        member_id: replace(member, owned=tuple(assigned[member_id]), generation=9)
        for member_id, member in group.members.items()
    }
    return GroupSubscription(members, group.racks)


def compare(assignor: Assignor, group: GroupSubscription, ours: Assignment, theirs: Assignment) -> None:
    if any(
        each.topic not in group.members[member_id].topics
        for member_id, share in theirs.items()
        for each in share
    ):
        return  # if members claim partitions of others, Kafka may assign topics that they did not subscribe to
    assert unevenness(ours) <= unevenness(theirs), group
    if unevenness(ours) == unevenness(theirs):
        assert not racks_matter(group) or far(group, ours) <= far(group, theirs), group
        if not racks_matter(group) or far(group, ours) == far(group, theirs):
            owned = owned_before(group, assignor)
            assert kept(ours, owned) >= kept(theirs, owned), group


def owned_before(group: GroupSubscription, assignor: Assignor) -> dict[str, set[TopicPartition]]:
    """The previous partitions of each member; those claimed by several count for none."""
    claims = {
        member_id: set(member.owned if assignor.is_cooperative or not data else read_previous(data)[0])
        for member_id, member in group.members.items()
        for data in [member.user_data]
    }
    often = Counter(each for claim in claims.values() for each in claim)
    return {member_id: {each for each in claim if often[each] == 1} for member_id, claim in claims.items()}
