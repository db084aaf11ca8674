"""Assignors: their names, their wire format, and their guarantees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from penstock.client.cluster import TopicPartition
from penstock.client.errors import BadConfiguration
from penstock.client.group.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    GroupSubscription,
    MemberAssignment,
    MemberSubscription,
    RangeAssignor,
    ReceivedAssignment,
    RoundRobinAssignor,
    StickyAssignor,
    assignors_of,
    is_cooperative,
)
from penstock.client.group.assignors import transport as transport_module
from penstock.client.group.assignors.user_data import read_previous, write_previous
from penstock.client.group.assignors.wire import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from penstock.protocol.errors import MalformedMessage

NOWHERE: frozenset[str] = frozenset()


class EverythingToTheFirst(Assignor):
    name = "first"

    def assign(self, group: GroupSubscription) -> Mapping[str, MemberAssignment | Sequence[TopicPartition]]:
        everything = [
            TopicPartition(topic, index) for topic in group.racks for index in range(group.partitions(topic))
        ]
        return {group.in_order[0].member_id: MemberAssignment(everything, user_data=b"all")}


def group_of(topics: Mapping[str, int], **members: Sequence[str]) -> GroupSubscription:
    return GroupSubscription(
        {name: MemberSubscription(name, tuple(wanted)) for name, wanted in members.items()},
        {topic: (NOWHERE,) * count for topic, count in topics.items()},
    )


@pytest.mark.parametrize(
    ("setting", "kinds"),
    [
        ("range", [RangeAssignor]),
        ("roundrobin, sticky", [RoundRobinAssignor, StickyAssignor]),
        (["round_robin", "cooperative_sticky"], [RoundRobinAssignor, CooperativeStickyAssignor]),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", [CooperativeStickyAssignor]),
        (
            ("org.apache.kafka.clients.consumer.RangeAssignor", "StickyAssignor"),
            [RangeAssignor, StickyAssignor],
        ),
        (StickyAssignor, [StickyAssignor]),
        ([EverythingToTheFirst(), RangeAssignor], [EverythingToTheFirst, RangeAssignor]),
        ("penstock.client.group.assignors.ranges.RangeAssignor", [RangeAssignor]),
    ],
)
def test_assignors_are_found_by_name_java_class_or_object(
    setting: object, kinds: list[type[Assignor]]
) -> None:
    assert [type(each) for each in assignors_of(setting)] == kinds


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("rang", "known are range, roundrobin, sticky, cooperative-sticky"),
        ("no.such.Assignor", "the assignor no.such.Assignor cannot be imported"),
        ([], "names no assignor"),
        (["range", RangeAssignor()], "'range' twice"),
        ([object], "not <class 'object'>"),
        (3, "not 3"),
    ],
)
def test_an_invalid_assignor_is_rejected_with_a_message(setting: object, message: str) -> None:
    with pytest.raises(BadConfiguration, match=message):
        assignors_of(setting)


def test_members_keep_reading_in_a_rebalance_only_if_every_assignor_allows_it() -> None:
    assert is_cooperative(assignors_of("cooperative-sticky"))
    assert not is_cooperative(assignors_of("range,cooperative-sticky"))


def test_a_subscription_round_trips() -> None:
    owned = (TopicPartition("a", 0), TopicPartition("a", 3), TopicPartition("b", 1))
    data = write_subscription(["b", "a"], user_data=b"mine", owned=owned, generation=7, rack="east")

    member = read_subscription(data, member_id="m", instance_id="i")

    assert member == MemberSubscription("m", ("a", "b"), "i", "east", owned, 7, b"mine")


def test_a_subscription_of_a_newer_version_is_read_as_the_newest_known() -> None:
    data = write_subscription(["a"], rack="east")

    member = read_subscription(b"\x00\x09" + data[2:] + b"news", member_id="m")

    assert (member.topics, member.rack) == (("a",), "east")


def test_a_subscription_of_version_0_has_only_topics() -> None:
    member = read_subscription(
        b"\x00\x00" + b"\x00\x00\x00\x01\x00\x01a" + b"\xff\xff\xff\xff", member_id="m"
    )

    assert member == MemberSubscription("m", ("a",))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff", b"\x00\x01\x00\x00\x00\x09"])
def test_invalid_subscriptions_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_subscription(data, member_id="m")


def test_an_assignment_round_trips_and_empty_data_is_no_partitions() -> None:
    share = MemberAssignment((TopicPartition("a", 0), TopicPartition("b", 2)), b"word")

    assert read_assignment(write_assignment(share)) == share
    assert read_assignment(b"") == MemberAssignment()


def test_sticky_user_data_round_trips_with_and_without_a_generation() -> None:
    had = [TopicPartition("a", 1), TopicPartition("b", 0)]
    data = write_previous(had, 5)

    assert read_previous(data) == (had, 5)
    assert read_previous(data[:-4]) == (had, -1)
    with pytest.raises(MalformedMessage):
        read_previous(b"nonsense")


def test_sticky_ignores_user_data_of_other_assignors() -> None:
    group = group_of({"a": 2}, m=["a"])
    strange = GroupSubscription({"m": MemberSubscription("m", ("a",), user_data=b"nonsense")}, group.racks)

    assert StickyAssignor().assign(strange) == {"m": [TopicPartition("a", 0), TopicPartition("a", 1)]}


def test_sticky_moves_only_the_share_of_new_members() -> None:
    assignor = StickyAssignor()
    before = assignor.assign(group_of({"a": 6, "b": 6}, m=["a", "b"], n=["a", "b"]))
    members = {
        name: MemberSubscription(
            name, ("a", "b"), user_data=assignor.user_data((), ReceivedAssignment(tuple(share), 1))
        )
        for name, share in before.items()
    }
    members["o"] = MemberSubscription("o", ("a", "b"))

    after = assignor.assign(GroupSubscription(members, {"a": (NOWHERE,) * 6, "b": (NOWHERE,) * 6}))

    assert {name: len(share) for name, share in after.items()} == {"m": 4, "n": 4, "o": 4}
    assert set(after["m"]) < set(before["m"])
    assert set(after["n"]) < set(before["n"])


def test_sticky_evens_out_along_chains_of_members() -> None:
    """`n` can take from `m` only what `o` does not want: it takes that, and `o` gets another partition."""
    assignor = StickyAssignor()
    group = group_of({"a": 4, "b": 2, "c": 1}, m=["a"], n=["a", "b"], o=["b", "c"])

    sizes = sorted(len(share) for share in assignor.assign(group).values())

    assert sizes == [2, 2, 3]


def test_a_solution_that_was_cut_short_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "STEPS_MAX", 0)
    group = group_of({"a": 4, "b": 2, "c": 1}, m=["a"], n=["a", "b"], o=["b", "c"])

    given = [each for share in StickyAssignor().assign(group).values() for each in share]

    assert len(given) == len(set(given)) == 7


def test_cooperative_sticky_withholds_partitions_of_other_owners() -> None:
    everything = tuple(TopicPartition("a", index) for index in range(4))
    members = {
        "m": MemberSubscription("m", ("a",), owned=everything, generation=3),
        "n": MemberSubscription("n", ("a",)),
    }
    racks = {"a": (NOWHERE,) * 4}

    first = CooperativeStickyAssignor().assign(GroupSubscription(members, racks))
    members["m"] = MemberSubscription("m", ("a",), owned=tuple(first["m"]), generation=4)
    second = CooperativeStickyAssignor().assign(GroupSubscription(members, racks))

    assert (len(first["m"]), first["n"]) == (2, [])
    assert second["m"] == first["m"]
    assert sorted(second["m"] + second["n"]) == list(everything)


def test_groups_without_members_or_topics_get_nothing() -> None:
    for assignor in assignors_of("range,roundrobin,sticky,cooperative-sticky"):
        assert assignor.assign(GroupSubscription({}, {"a": (NOWHERE,)})) == {}
        assert assignor.assign(group_of({}, m=["a"])) == {"m": []}
