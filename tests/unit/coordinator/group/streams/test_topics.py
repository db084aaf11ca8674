"""The topics of a topology: partition counts, missing topics, and wrong partition counts."""

from __future__ import annotations

from harness.streams_groups import (
    StreamsApp,
    StreamsHarness,
    counting_topology,
    settle,
    statuses,
    subtopology,
    topic_info,
    topology,
)
from penstock.coordinator.group.streams.configuring import StatusCode
from penstock.coordinator.group.streams.tasks import Task
from penstock.coordinator.group.streams.topology import InternalTopic
from penstock.protocol.messages.streams_group_heartbeat import Topology


def harness_with(**topics: int) -> StreamsHarness:
    harness = StreamsHarness()
    for name, partition_count in topics.items():
        harness.create_topic(name, partition_count)
    return harness


def counts(harness: StreamsHarness, wanted: Topology) -> dict[str, int]:
    """The partition counts of missing internal topics."""
    heartbeat = harness.beat("one", topology=wanted)
    return {topic.name: topic.partition_count for topic in heartbeat.missing_topics}


def fault(harness: StreamsHarness, wanted: Topology) -> tuple[list[StatusCode], str]:
    response = harness.heartbeat("one", topology=wanted)
    assert response.status is not None
    return statuses(response), " ".join(status.status_detail for status in response.status)


def test_without_its_source_topics_a_group_is_not_ready_and_members_get_a_status() -> None:
    harness = StreamsHarness()

    heartbeat = harness.beat("one")

    assert statuses(heartbeat.response) == [StatusCode.MISSING_SOURCE_TOPICS]
    assert heartbeat.missing_topics == ()
    assert heartbeat.response.active_tasks == []
    assert harness.group.state_name() == "NotReady"


def test_tasks_are_assigned_when_the_source_topics_exist() -> None:
    harness = StreamsHarness()
    one = StreamsApp(harness, "one")
    one.beat()

    harness.create_topic("in", 2)
    response = one.beat()

    assert response.status == []
    assert one.active == {Task("0", 0), Task("0", 1)}
    assert harness.group.state_name() == "Stable"


def test_missing_internal_topics_are_requested_with_the_partition_count_of_their_source() -> None:
    harness = harness_with(**{"in": 3})

    heartbeat = harness.beat("one", topology=counting_topology())

    assert heartbeat.missing_topics == (
        InternalTopic("counts", 3, 0, (("cleanup.policy", "compact"),)),
        InternalTopic("words", 3, 0, (("cleanup.policy", "delete"),)),
    )
    assert statuses(heartbeat.response) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert harness.group.state_name() == "NotReady"


def test_a_group_is_ready_when_its_internal_topics_are_created() -> None:
    harness = harness_with(**{"in": 2})
    one = StreamsApp(harness, "one", topology=counting_topology())
    one.beat()
    harness.create_topic("words", 2)
    harness.create_topic("counts", 2)

    settle(one)

    assert one.active == {Task(part, index) for part in "01" for index in range(2)}


def test_a_topic_that_grows_gets_more_tasks() -> None:
    harness = harness_with(**{"in": 1})
    one = StreamsApp(harness, "one")
    one.beat()

    harness.grow_topic("in", 2)
    settle(one)

    assert one.active == {Task("0", 0), Task("0", 1)}
    assert one.epoch == 3


def test_the_tasks_of_a_deleted_topic_are_removed() -> None:
    harness = harness_with(**{"in": 1})
    one = StreamsApp(harness, "one")
    one.beat()

    harness.delete_topic("in")
    response = one.beat()

    assert statuses(response) == [StatusCode.MISSING_SOURCE_TOPICS]
    settle(one)
    assert one.active == set()
    assert harness.group.state_name() == "NotReady"


def test_topics_of_other_groups_do_not_matter() -> None:
    harness = harness_with(**{"in": 1})
    one = StreamsApp(harness, "one")
    one.beat()
    harness.create_topic("other", 1)
    written = len(harness.log)

    one.beat()

    assert len(harness.log) == written


def test_partition_counts_follow_through_several_subtopologies() -> None:
    harness = harness_with(a=2, b=5)
    wanted = topology(
        subtopology("2", repartitions=[topic_info("second")], changelogs=[topic_info("state")]),
        subtopology("1", sources=["a"], repartitions=[topic_info("first")], sinks=["second"]),
        subtopology("0", sources=["b"], sinks=["first"]),
    )

    assert counts(harness, wanted) == {"first": 5, "second": 5, "state": 5}


def test_an_application_may_set_the_partition_count_of_a_repartition_topic() -> None:
    harness = harness_with(**{"in": 3})
    wanted = topology(
        subtopology("0", sources=["in"], sinks=["words"]),
        subtopology(
            "1",
            repartitions=[topic_info("words", partitions=7, replicas=2)],
            changelogs=[topic_info("counts")],
        ),
    )

    assert counts(harness, wanted) == {"words": 7, "counts": 7}
    assert {topic.replication_factor for topic in harness.beat("one", topology=wanted).missing_topics} == {
        0,
        2,
    }


def test_joined_topics_must_have_the_same_partition_count() -> None:
    harness = harness_with(a=2, b=3)
    wanted = topology(subtopology(sources=["a", "b"], joined=[([0, 1], [])]))

    codes, detail = fault(harness, wanted)

    assert codes == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    assert "a has 2, b has 3" in detail


def test_a_joined_repartition_topic_takes_the_partition_count_of_the_other_topic() -> None:
    harness = harness_with(a=2, b=5)
    wanted = topology(
        subtopology("0", sources=["b"], sinks=["words"]),
        subtopology("1", sources=["a"], repartitions=[topic_info("words")], joined=[([0], [0])]),
    )

    assert counts(harness, wanted) == {"words": 2}


def test_a_repartition_topic_with_a_fixed_count_must_match_the_topics_it_is_joined_with() -> None:
    harness = harness_with(a=2, b=5)
    wanted = topology(
        subtopology("0", sources=["b"], sinks=["words"]),
        subtopology(
            "1", sources=["a"], repartitions=[topic_info("words", partitions=4)], joined=[([0], [0])]
        ),
    )

    assert fault(harness, wanted)[0] == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]


def test_joined_repartition_topics_take_the_largest_partition_count() -> None:
    harness = harness_with(a=2, b=5)
    wanted = topology(
        subtopology("0", sources=["a"], sinks=["left"]),
        subtopology("1", sources=["b"], sinks=["right"]),
        subtopology("2", repartitions=[topic_info("left"), topic_info("right")], joined=[([], [0, 1])]),
    )

    assert counts(harness, wanted) == {"left": 5, "right": 5}


def test_joined_repartition_topics_take_the_partition_count_that_one_of_them_sets() -> None:
    harness = harness_with(a=2, b=5)
    wanted = topology(
        subtopology("0", sources=["a"], sinks=["left"]),
        subtopology("1", sources=["b"], sinks=["right"]),
        subtopology(
            "2", repartitions=[topic_info("left", partitions=4), topic_info("right")], joined=[([], [0, 1])]
        ),
    )

    assert counts(harness, wanted) == {"left": 4, "right": 4}


def test_joined_repartition_topics_with_different_fixed_counts_are_refused() -> None:
    harness = harness_with(a=2)
    wanted = topology(
        subtopology("0", sources=["a"], sinks=["left", "right"]),
        subtopology(
            "1",
            repartitions=[topic_info("left", partitions=4), topic_info("right", partitions=3)],
            joined=[([], [0, 1])],
        ),
    )

    assert fault(harness, wanted)[0] == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]


def test_an_existing_internal_topic_must_have_the_right_partition_count() -> None:
    harness = harness_with(**{"in": 3, "words": 3, "counts": 2})

    codes, detail = fault(harness, counting_topology())

    assert codes == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    assert "counts" in detail


def test_a_status_has_only_a_few_of_many_topic_names() -> None:
    harness = StreamsHarness()

    _, detail = fault(harness, topology(subtopology(sources=[f"topic-{n}" for n in range(9)])))

    assert "topic-0, topic-1, topic-2 and 6 more" in detail
    assert "topic-3" not in detail
