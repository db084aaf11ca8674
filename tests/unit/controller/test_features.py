"""Feature levels. Error codes are those that Apache Kafka 4.3.1 gave to the same requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.controller.features import UpgradeType, bootstrap_records, update_features
from penstock.metadata.errors import Refused
from penstock.metadata.features import initial_levels
from penstock.metadata.image import EMPTY_IMAGE, FeatureRange, MetadataImage
from penstock.metadata.records import ClearElrRecord, ConfigRecord, FeatureLevelRecord
from penstock.metadata.resources import CLUSTER_DEFAULTS
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from unit.controller.clusters import SETTINGS, after, cluster

UPGRADE, SAFE, UNSAFE = UpgradeType


def update(
    image: MetadataImage, *updates: tuple[str, int, int], validate_only: bool = False
) -> MetadataImage:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
            for feature, level, kind in updates
        ],
        validate_only=validate_only,
    )
    return after(image, update_features(image, request, settings=SETTINGS, node_id=1))


def test_a_new_cluster_has_the_levels_of_kafka_4_3() -> None:
    outcome = bootstrap_records(SETTINGS)

    first = outcome.records[0]
    assert first == FeatureLevelRecord(name="metadata.version", feature_level=30)
    image = after(EMPTY_IMAGE, outcome)
    assert image.features == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert image.settings_of(CLUSTER_DEFAULTS) == {"min.insync.replicas": "1"}


def test_a_level_can_be_downgraded_and_upgraded() -> None:
    lowered = update(cluster(), ("streams.version", 0, SAFE))
    assert "streams.version" not in lowered.features

    assert update(lowered, ("streams.version", 1, UPGRADE)).features["streams.version"] == 1


def test_validate_only_writes_nothing() -> None:
    image = cluster()

    assert update(image, ("streams.version", 0, SAFE), validate_only=True) is image


def test_the_last_word_counts() -> None:
    image = update(cluster(), ("group.version", 1, UPGRADE), ("group.version", 0, SAFE))

    assert "group.version" not in image.features


@pytest.mark.parametrize(
    "wanted",
    [
        ("nosuch", 1, UPGRADE),
        ("", 1, UPGRADE),
        ("group.version", 5, UPGRADE),
        ("group.version", -1, UPGRADE),
        ("group.version", 0, UPGRADE),
        ("group.version", 1, 0),
        ("group.version", 1, 9),
        ("metadata.version", 29, SAFE),
        ("metadata.version", 0, UNSAFE),
        ("kraft.version", 2, UPGRADE),
        ("kraft.version", 0, SAFE),
    ],
)
def test_invalid_updates_are_refused(wanted: tuple[str, int, int]) -> None:
    with pytest.raises(Refused) as refused:
        update(cluster(), wanted)

    assert refused.value.error is ErrorCode.INVALID_UPDATE_VERSION


def test_a_downgrade_to_a_newer_level_is_none() -> None:
    lowered = update(cluster(), ("share.version", 0, SAFE))

    with pytest.raises(Refused, match="This is an upgrade, but the upgrade type is a downgrade"):
        update(lowered, ("share.version", 1, SAFE))


def test_a_level_needs_every_nodes_consent() -> None:
    image = update(cluster(2), ("streams.version", 0, SAFE))
    old = replace(image.brokers[2], features={"metadata.version": FeatureRange(30, 30)})
    image = replace(image, brokers={**image.brokers, 2: old})

    with pytest.raises(Refused, match="Broker 2 only supports versions 0-0"):
        update(image, ("streams.version", 1, UPGRADE))


def test_setting_the_current_level_is_allowed() -> None:
    image = cluster()

    assert update(image, ("group.version", 1, UPGRADE)).features == image.features
    assert update(image, ("kraft.version", 1, UPGRADE)) is image


def test_disabling_elr_clears_it_and_enabling_makes_min_isr_cluster_wide() -> None:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(
                feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=SAFE
            )
        ]
    )
    image = cluster()
    off = update_features(image, request, settings=SETTINGS, node_id=1)
    assert ClearElrRecord(topic_name="") in off.records
    image = after(image, off)
    image = image.apply(
        [
            ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value=None),
            ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value="3"),
        ],
        offset=99,
        epoch=1,
    ).image

    image = update(image, ("eligible.leader.replicas.version", 1, UPGRADE))

    assert image.configs == {CLUSTER_DEFAULTS: {"min.insync.replicas": "1"}}


def at_metadata_version(level: int) -> MetadataImage:
    """A cluster that was created by an older release."""
    return replace(cluster(), features=initial_levels(level))


def test_a_cluster_of_kafka_3_7_is_upgraded() -> None:
    image = at_metadata_version(19)
    assert image.features == {"metadata.version": 19}

    image = update(image, ("metadata.version", 30, UPGRADE), ("eligible.leader.replicas.version", 1, UPGRADE))

    assert image.features == {"metadata.version": 30, "eligible.leader.replicas.version": 1}


def test_a_feature_needs_the_metadata_version_with_its_records() -> None:
    image = at_metadata_version(22)

    with pytest.raises(Refused, match=r"needs metadata.version at level 23") as refused:
        update(image, ("eligible.leader.replicas.version", 1, UPGRADE))

    assert refused.value.error is ErrorCode.INVALID_UPDATE_VERSION


def test_a_downgrade_that_loses_no_records_is_allowed() -> None:
    image = at_metadata_version(29)

    image = update(image, ("metadata.version", 24, SAFE))
    assert image.features["metadata.version"] == 24

    with pytest.raises(Refused, match="might delete metadata information"):
        update(image, ("metadata.version", 22, SAFE))
    with pytest.raises(Refused, match="Unsafe metadata downgrade is not supported"):
        update(image, ("metadata.version", 22, UNSAFE))
