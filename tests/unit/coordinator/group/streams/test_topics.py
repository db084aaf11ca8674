"""Topics that a topology needs: how many partitions they get, which are missing, which do not fit."""

from __future__ import annotations

from harness.streams_groups import (
    StreamsApp,
    StreamsStage,
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


def stage_with(**topics: int) -> StreamsStage:
    stage = StreamsStage()
    for name, partition_count in topics.items():
        stage.create_topic(name, partition_count)
    return stage


def counts(stage: StreamsStage, wanted: Topology) -> dict[str, int]:
    """The partitions that missing internal topics shall have."""
    heartbeat = stage.beat("one", topology=wanted)
    return {topic.name: topic.partition_count for topic in heartbeat.missing_topics}


def fault(stage: StreamsStage, wanted: Topology) -> tuple[list[StatusCode], str]:
    response = stage.heartbeat("one", topology=wanted)
    assert response.status is not None
    return statuses(response), " ".join(status.status_detail for status in response.status)


def test_without_its_source_topics_a_group_is_not_ready_and_its_members_are_told() -> None:
    stage = StreamsStage()

    heartbeat = stage.beat("one")

    assert statuses(heartbeat.response) == [StatusCode.MISSING_SOURCE_TOPICS]
    assert heartbeat.missing_topics == ()
    assert heartbeat.response.active_tasks == []
    assert stage.group.state_name() == "NotReady"


def test_tasks_are_assigned_once_the_source_topics_are_there() -> None:
    stage = StreamsStage()
    one = StreamsApp(stage, "one")
    one.beat()

    stage.create_topic("in", 2)
    response = one.beat()

    assert response.status == []
    assert one.active == {Task("0", 0), Task("0", 1)}
    assert stage.group.state_name() == "Stable"


def test_missing_internal_topics_are_asked_for_and_follow_their_source() -> None:
    stage = stage_with(**{"in": 3})

    heartbeat = stage.beat("one", topology=counting_topology())

    assert heartbeat.missing_topics == (
        InternalTopic("counts", 3, 0, (("cleanup.policy", "compact"),)),
        InternalTopic("words", 3, 0, (("cleanup.policy", "delete"),)),
    )
    assert statuses(heartbeat.response) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert stage.group.state_name() == "NotReady"


def test_a_group_is_ready_when_its_internal_topics_are_created() -> None:
    stage = stage_with(**{"in": 2})
    one = StreamsApp(stage, "one", topology=counting_topology())
    one.beat()
    stage.create_topic("words", 2)
    stage.create_topic("counts", 2)

    settle(one)

    assert one.active == {Task(part, index) for part in "01" for index in range(2)}


def test_a_topic_that_grows_gets_more_tasks() -> None:
    stage = stage_with(**{"in": 1})
    one = StreamsApp(stage, "one")
    one.beat()

    stage.grow_topic("in", 2)
    settle(one)

    assert one.active == {Task("0", 0), Task("0", 1)}
    assert one.epoch == 3


def test_a_topic_that_is_deleted_takes_the_tasks_with_it() -> None:
    stage = stage_with(**{"in": 1})
    one = StreamsApp(stage, "one")
    one.beat()

    stage.delete_topic("in")
    response = one.beat()

    assert statuses(response) == [StatusCode.MISSING_SOURCE_TOPICS]
    settle(one)
    assert one.active == set()
    assert stage.group.state_name() == "NotReady"


def test_topics_of_others_do_not_matter() -> None:
    stage = stage_with(**{"in": 1})
    one = StreamsApp(stage, "one")
    one.beat()
    stage.create_topic("other", 1)
    written = len(stage.log)

    one.beat()

    assert len(stage.log) == written


def test_repartition_topics_follow_through_several_subtopologies() -> None:
    stage = stage_with(a=2, b=5)
    wanted = topology(
        subtopology("2", repartitions=[topic_info("second")], changelogs=[topic_info("state")]),
        subtopology("1", sources=["a"], repartitions=[topic_info("first")], sinks=["second"]),
        subtopology("0", sources=["b"], sinks=["first"]),
    )

    assert counts(stage, wanted) == {"first": 5, "second": 5, "state": 5}


def test_an_application_may_fix_the_partitions_of_a_repartition_topic() -> None:
    stage = stage_with(**{"in": 3})
    wanted = topology(
        subtopology("0", sources=["in"], sinks=["words"]),
        subtopology(
            "1",
            repartitions=[topic_info("words", partitions=7, replicas=2)],
            changelogs=[topic_info("counts")],
        ),
    )

    assert counts(stage, wanted) == {"words": 7, "counts": 7}
    assert {topic.replication_factor for topic in stage.beat("one", topology=wanted).missing_topics} == {0, 2}


def test_topics_that_are_joined_must_have_equally_many_partitions() -> None:
    stage = stage_with(a=2, b=3)
    wanted = topology(subtopology(sources=["a", "b"], joined=[([0, 1], [])]))

    codes, detail = fault(stage, wanted)

    assert codes == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    assert "a has 2, b has 3" in detail


def test_a_repartition_topic_that_is_joined_takes_the_count_of_the_other_topic() -> None:
    stage = stage_with(a=2, b=5)
    wanted = topology(
        subtopology("0", sources=["b"], sinks=["words"]),
        subtopology("1", sources=["a"], repartitions=[topic_info("words")], joined=[([0], [0])]),
    )

    assert counts(stage, wanted) == {"words": 2}


def test_a_repartition_topic_with_a_count_of_its_own_must_fit_what_it_is_joined_with() -> None:
    stage = stage_with(a=2, b=5)
    wanted = topology(
        subtopology("0", sources=["b"], sinks=["words"]),
        subtopology(
            "1", sources=["a"], repartitions=[topic_info("words", partitions=4)], joined=[([0], [0])]
        ),
    )

    assert fault(stage, wanted)[0] == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]


def test_repartition_topics_that_are_joined_take_the_greatest_count() -> None:
    stage = stage_with(a=2, b=5)
    wanted = topology(
        subtopology("0", sources=["a"], sinks=["left"]),
        subtopology("1", sources=["b"], sinks=["right"]),
        subtopology("2", repartitions=[topic_info("left"), topic_info("right")], joined=[([], [0, 1])]),
    )

    assert counts(stage, wanted) == {"left": 5, "right": 5}


def test_a_fixed_count_among_joined_repartition_topics_is_for_all_of_them() -> None:
    stage = stage_with(a=2, b=5)
    wanted = topology(
        subtopology("0", sources=["a"], sinks=["left"]),
        subtopology("1", sources=["b"], sinks=["right"]),
        subtopology(
            "2", repartitions=[topic_info("left", partitions=4), topic_info("right")], joined=[([], [0, 1])]
        ),
    )

    assert counts(stage, wanted) == {"left": 4, "right": 4}


def test_two_fixed_counts_among_joined_repartition_topics_do_not_fit() -> None:
    stage = stage_with(a=2)
    wanted = topology(
        subtopology("0", sources=["a"], sinks=["left", "right"]),
        subtopology(
            "1",
            repartitions=[topic_info("left", partitions=4), topic_info("right", partitions=3)],
            joined=[([], [0, 1])],
        ),
    )

    assert fault(stage, wanted)[0] == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]


def test_an_internal_topic_that_exists_must_have_the_partitions_that_it_should_have() -> None:
    stage = stage_with(**{"in": 3, "words": 3, "counts": 2})

    codes, detail = fault(stage, counting_topology())

    assert codes == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    assert "counts" in detail


def test_a_status_names_only_a_few_of_many_topics() -> None:
    stage = StreamsStage()

    _, detail = fault(stage, topology(subtopology(sources=[f"topic-{n}" for n in range(9)])))

    assert "topic-0, topic-1, topic-2 and 6 more" in detail
    assert "topic-3" not in detail
