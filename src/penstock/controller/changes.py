"""Log lines about committed changes of the metadata: one line per topic and resource. `cluster_changes` has those about
brokers and leaders.

Only the controller logs them, so each change is logged once in a cluster. Values of sensitive settings are never
shown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from penstock.config.broker import find_setting
from penstock.controller.cluster_changes import cluster_lines, lost_leaders, unclean_elections
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.protocol.types import uuid_text

logger = logging.getLogger(__name__)

LINES_MAX = 200  # per change: a request that creates 10,000 topics must not block the node with logging
HIDDEN = "(hidden)"


def log_changes(delta: MetadataDelta, *, requested_by: str) -> None:
    try:
        _log_changes(delta, requested_by)
    except Exception:
        # The change is committed: a failure to log it must not stop the node.
        logger.exception("logging a committed change of the metadata failed")


def _log_changes(delta: MetadataDelta, requested_by: str) -> None:
    lines = [*_topic_lines(delta), *_config_lines(delta), *_feature_lines(delta), *cluster_lines(delta)]
    for line in lines[:LINES_MAX]:
        logger.info("%s, requested by %s", line, requested_by)
    if len(lines) > LINES_MAX:
        logger.info("%d more changes, requested by %s", len(lines) - LINES_MAX, requested_by)
    for warning in (unclean_elections(delta), lost_leaders(delta)):
        if warning is not None:
            logger.warning("%s", warning)


def _topic_lines(delta: MetadataDelta) -> Iterator[str]:
    for topic_id, change in delta.topics.items():
        before, after = change.before, change.after
        if change.is_created and after is not None:
            values = delta.image.settings_of(ConfigResource(ResourceType.TOPIC, after.name))
            set_to = ", ".join(f"{name}={value}" for name, value in sorted(values.items()))
            yield (
                f"created topic {after.name} with {len(after.partitions)} partition(s), replication factor "
                f"{len(after.partitions[0].replicas) if after.partitions else 0}, topic id {uuid_text(topic_id)}"
                f"{f' and settings {set_to}' if set_to else ''}"
            )
        elif change.is_deleted and before is not None:
            yield (
                f"deleted topic {before.name} with {len(before.partitions)} partition(s), topic id "
                f"{uuid_text(topic_id)}"
            )
        elif before is not None and after is not None and len(after.partitions) > len(before.partitions):
            yield (
                f"increased the partitions of topic {after.name} from {len(before.partitions)} to "
                f"{len(after.partitions)}"
            )


def _config_lines(delta: MetadataDelta) -> Iterator[str]:
    created = {
        change.after.name for change in delta.topics.values() if change.before is None and change.after
    }
    for resource in dict.fromkeys(delta.configs):
        if resource.type is ResourceType.TOPIC and (
            resource.name in created or resource.name not in delta.image.topics
        ):
            continue  # logged with the topic
        before, after = delta.before.settings_of(resource), delta.image.settings_of(resource)
        differences = ", ".join(
            f"{name}: {_shown(resource, name, before)} -> {_shown(resource, name, after)}"
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        )
        if differences:
            yield f"altered settings of {_described(resource)}: {differences}"


def _feature_lines(delta: MetadataDelta) -> Iterator[str]:
    for name in delta.features:
        before, after = delta.before.features.get(name, 0), delta.image.features.get(name, 0)
        if before != after:
            yield f"changed feature {name} from level {before} to {after}"


def _described(resource: ConfigResource) -> str:
    kind = resource.type.name.lower().replace("_", " ")
    return f"{kind} {resource.name}" if resource.name else f"all {kind}s"


def _shown(resource: ConfigResource, name: str, values: Mapping[str, str]) -> str:
    value = values.get(name)
    if value is None:
        return "default"
    if resource.type is ResourceType.BROKER:
        setting = find_setting(name)
        if setting is None or setting.is_sensitive:
            return HIDDEN
    return value
