"""Settings of a group, within the bounds of the broker's `group.*` settings."""

from __future__ import annotations

from penstock.config.declare import SECOND_MS, Rule, at_least, boolean, integer, one_of, string
from penstock.config.durations import is_by_duration


def _is_offset_reset(text: str) -> bool:
    return text in ("earliest", "latest") or is_by_duration(text)


OFFSET_RESET = Rule(_is_offset_reset, "earliest, latest, or by_duration: and a duration such as PT24H")

CONSUMER = (
    integer("consumer.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "A member of the consumer group is removed after this time without a heartbeat."
    ),
    integer("consumer.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "How often members of the consumer group send a heartbeat."
    ),
    integer("consumer.assignment.interval.ms", SECOND_MS, at_least(0)).means(
        "The minimum time between two assignments of the consumer group."
    ),
)

SHARE = (
    integer("share.session.timeout.ms", 45 * SECOND_MS, at_least(1)).not_yet(
        "A member of the share group is removed after this time without a heartbeat."
    ),
    integer("share.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).not_yet(
        "How often members of the share group send a heartbeat."
    ),
    integer("share.assignment.interval.ms", SECOND_MS, at_least(0)).not_yet(
        "The minimum time between two assignments of the share group."
    ),
    integer("share.record.lock.duration.ms", 30 * SECOND_MS, at_least(SECOND_MS)).not_yet(
        "How long a record is locked for one member before another member can acquire it."
    ),
    integer("share.delivery.count.limit", 5, at_least(2)).not_yet(
        "The maximum number of delivery attempts of a record."
    ),
    integer("share.partition.max.record.locks", 2000, at_least(100)).not_yet(
        "The maximum number of locked records of one partition."
    ),
    string("share.auto.offset.reset", "latest", OFFSET_RESET).not_yet(
        "Where the share group starts in a new partition: earliest, latest, or a duration before now."
    ),
    string("share.isolation.level", "read_uncommitted", one_of("read_committed", "read_uncommitted")).not_yet(
        "Whether the share group reads records of open and aborted transactions."
    ),
    boolean("share.renew.acknowledge.enable", True).not_yet("Allow members to extend the lock of a record."),
)

STREAMS = (
    integer("streams.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "A member of the streams group is removed after this time without a heartbeat."
    ),
    integer("streams.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "How often members of the streams group send a heartbeat."
    ),
    integer("streams.assignment.interval.ms", SECOND_MS, at_least(0)).means(
        "The minimum time between two assignments of the streams group."
    ),
    integer("streams.num.standby.replicas", 0, at_least(0)).means(
        "The number of standby replicas of each task."
    ),
    integer("streams.initial.rebalance.delay.ms", 3 * SECOND_MS, at_least(0)).means(
        "How long the new streams group waits for more members before its first assignment."
    ),
)

SETTINGS = CONSUMER + SHARE + STREAMS

# A group inherits the broker setting of the same name with the prefix `group.`. These have none.
WITHOUT_BROKER_SYNONYM = {
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.renew.acknowledge.enable",
}
BROKER_SYNONYMS = {s.name: f"group.{s.name}" for s in SETTINGS if s.name not in WITHOUT_BROKER_SYNONYM}
