"""Changes of dynamic settings. Error codes are those that Apache Kafka 4.3.1 gave to the same requests."""

from __future__ import annotations

import pytest

from penstock.config.alter import Change, Operation
from penstock.controller.configs import Alteration, alter_configs
from penstock.controller.outcome import RECORDS_MAX, Outcome
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.metadata.records import ConfigRecord, FeatureLevelRecord
from penstock.metadata.resources import CLUSTER_DEFAULTS, ConfigResource, ResourceType, topic_resource
from penstock.metadata.settings import DynamicSettings
from penstock.protocol.errors import ErrorCode
from unit.controller.clusters import SETTINGS, after, cluster, new_topic, with_topics

SET, DELETE, APPEND, SUBTRACT = Operation
IMAGE = with_topics(cluster(), new_topic("t", 1, 1))

TOPIC = topic_resource("t")
NODE = ConfigResource(ResourceType.BROKER, "1")
GROUP = ConfigResource(ResourceType.GROUP, "g")
METRICS = ConfigResource(ResourceType.CLIENT_METRICS, "m")


def alter(
    image: MetadataImage, *alterations: Alteration, validate_only: bool = False
) -> Outcome[list[Refused | None]]:
    settings = DynamicSettings(SETTINGS).of_broker(image)
    return alter_configs(image, alterations, settings=settings, validate_only=validate_only)


def change(resource: ConfigResource, *changes: Change) -> Alteration:
    return Alteration(resource, changes)


def error(outcome: Outcome[list[Refused | None]]) -> ErrorCode:
    (refused,) = outcome.response
    return ErrorCode.NONE if refused is None else refused.error


def settings_after(image: MetadataImage, *alterations: Alteration) -> MetadataImage:
    outcome = alter(image, *alterations)
    assert outcome.response == [None] * len(alterations)
    return after(image, outcome)


def test_a_setting_is_set_and_deleted() -> None:
    image = settings_after(IMAGE, change(TOPIC, Change("retention.ms", SET, "5")))
    assert image.settings_of(TOPIC) == {"retention.ms": "5"}

    image = settings_after(image, change(TOPIC, Change("retention.ms", DELETE)))
    assert image.settings_of(TOPIC) == {}


def test_a_list_grows_and_shrinks() -> None:
    image = settings_after(IMAGE, change(TOPIC, Change("cleanup.policy", APPEND, "compact")))
    assert image.settings_of(TOPIC) == {"cleanup.policy": "delete,compact"}

    image = settings_after(image, change(TOPIC, Change("cleanup.policy", SUBTRACT, "delete")))
    assert image.settings_of(TOPIC) == {"cleanup.policy": "compact"}


def test_an_unchanged_topic_setting_writes_no_record() -> None:
    image = settings_after(IMAGE, change(TOPIC, Change("retention.ms", SET, "5")))

    assert alter(image, change(TOPIC, Change("retention.ms", SET, "5"))).records == []
    assert alter(image, change(TOPIC, Change("segment.ms", DELETE))).records == []


def test_a_nodes_setting_is_written_again_although_it_stays_the_same() -> None:
    image = settings_after(IMAGE, change(NODE, Change("log.cleaner.threads", SET, "2")))

    again = alter(image, change(NODE, Change("log.cleaner.threads", SET, "2")))

    assert again.records == [
        ConfigRecord(resource_type=4, resource_name="1", name="log.cleaner.threads", value="2")
    ]


def test_all_changes_of_a_resource_are_made_or_none() -> None:
    outcome = alter(IMAGE, change(TOPIC, Change("retention.ms", SET, "5"), Change("segment.ms", SET, "x")))

    assert error(outcome) is ErrorCode.INVALID_CONFIG
    assert outcome.records == []


def test_resources_are_altered_each_by_itself() -> None:
    outcome = alter(
        IMAGE,
        change(TOPIC, Change("retention.ms", SET, "x")),
        change(NODE, Change("log.cleaner.threads", SET, "2")),
        change(CLUSTER_DEFAULTS, Change("log.retention.ms", SET, "7000")),
    )

    assert [refused is None for refused in outcome.response] == [False, True, True]
    image = after(IMAGE, outcome)
    assert image.settings_of(NODE) == {"log.cleaner.threads": "2"}
    assert image.settings_of(CLUSTER_DEFAULTS)["log.retention.ms"] == "7000"


def test_validate_only_writes_nothing() -> None:
    outcome = alter(IMAGE, change(TOPIC, Change("retention.ms", SET, "5")), validate_only=True)

    assert outcome.records == []
    assert outcome.response == [None]


def test_a_replacement_removes_settings_that_it_does_not_name() -> None:
    image = settings_after(
        IMAGE, change(TOPIC, Change("retention.ms", SET, "5"), Change("segment.ms", SET, "6"))
    )

    replacement = Alteration(TOPIC, [Change("segment.ms", SET, "7")], is_replacement=True)
    image = settings_after(image, replacement)

    assert image.settings_of(TOPIC) == {"segment.ms": "7"}
    assert settings_after(image, Alteration(TOPIC, [], is_replacement=True)).settings_of(TOPIC) == {}


def test_groups_and_subscriptions_come_into_being_by_being_named() -> None:
    image = settings_after(
        IMAGE,
        change(GROUP, Change("consumer.session.timeout.ms", SET, "50000")),
        change(METRICS, Change("interval.ms", SET, "1000")),
    )

    assert image.settings_of(GROUP) == {"consumer.session.timeout.ms": "50000"}
    assert image.settings_of(METRICS) == {"interval.ms": "1000"}


@pytest.mark.parametrize(
    ("resource", "wanted", "expected"),
    [
        (TOPIC, Change("nosuch", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, Change("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, Change("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, Change("nosuch", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, Change("nosuch", DELETE), ErrorCode.NONE),
        (topic_resource("nosuch"), Change("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic_resource(""), Change("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (topic_resource("../x"), Change("retention.ms", SET, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NODE, Change("log.dirs", SET, "/x"), ErrorCode.INVALID_REQUEST),
        (NODE, Change("log.cleaner.threads", SET, "x"), ErrorCode.INVALID_REQUEST),
        (
            ConfigResource(ResourceType.BROKER, "77"),
            Change("log.cleaner.threads", SET, "2"),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        (
            ConfigResource(ResourceType.BROKER, "abc"),
            Change("log.cleaner.threads", SET, "2"),
            ErrorCode.INVALID_REQUEST,
        ),
        (GROUP, Change("consumer.session.timeout.ms", SET, "1"), ErrorCode.INVALID_CONFIG),
        (GROUP, Change("nosuch", SET, "1"), ErrorCode.INVALID_CONFIG),
        (ConfigResource(ResourceType.GROUP, ""), Change("a", SET, "1"), ErrorCode.INVALID_REQUEST),
        (METRICS, Change("interval.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (METRICS, Change("nosuch", SET, "1"), ErrorCode.INVALID_REQUEST),
        (
            ConfigResource(ResourceType.CLIENT_METRICS, ""),
            Change("interval.ms", SET, "1000"),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_invalid_changes_are_refused(resource: ConfigResource, wanted: Change, expected: ErrorCode) -> None:
    assert error(alter(IMAGE, change(resource, wanted))) is expected


def test_min_isr_is_the_clusters_while_eligible_leaders_are_tracked() -> None:
    key = "min.insync.replicas"

    assert IMAGE.settings_of(CLUSTER_DEFAULTS) == {key: "1"}
    assert error(alter(IMAGE, change(NODE, Change(key, SET, "1")))) is ErrorCode.INVALID_CONFIG
    assert error(alter(IMAGE, change(CLUSTER_DEFAULTS, Change(key, DELETE)))) is ErrorCode.INVALID_CONFIG
    assert (
        error(alter(IMAGE, Alteration(CLUSTER_DEFAULTS, [], is_replacement=True))) is ErrorCode.INVALID_CONFIG
    )
    assert error(alter(IMAGE, change(CLUSTER_DEFAULTS, Change(key, SET, "2")))) is ErrorCode.NONE

    switched_off = IMAGE.apply(
        [FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)], offset=99, epoch=1
    ).image
    assert error(alter(switched_off, change(NODE, Change(key, SET, "1")))) is ErrorCode.NONE


def test_a_list_that_outgrows_a_record_is_refused() -> None:
    key = "leader.replication.throttled.replicas"
    half = ",".join(f"{index}:1" for index in range(3000))
    other_half = ",".join(f"{index}:1" for index in range(3000, 6000))
    image = settings_after(IMAGE, change(TOPIC, Change(key, SET, half)))

    assert error(alter(image, change(TOPIC, Change(key, APPEND, other_half)))) is ErrorCode.INVALID_CONFIG


def test_a_request_is_bounded() -> None:
    changes = [Change(f"nosuch.{index}", DELETE) for index in range(RECORDS_MAX + 1)]

    outcome = alter(IMAGE, change(NODE, *changes))

    assert error(outcome) is ErrorCode.POLICY_VIOLATION
    assert outcome.records == []


def test_settings_of_another_broker_are_recorded_as_that_broker_has_checked_them() -> None:
    image = cluster(2)
    other = ConfigResource(ResourceType.BROKER, "2")

    first = alter(image, change(other, Change("log.cleaner.threads", SET, "2")))
    second = alter(after(image, first), change(other, Change("log.cleaner.threads", Operation.DELETE)))

    assert first.response == second.response == [None]
    assert after(after(image, first), second).settings_of(other) == {}
    assert after(image, first).settings_of(other) == {"log.cleaner.threads": "2"}
