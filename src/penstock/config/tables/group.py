"""What can be said of one group, within the bounds that the broker's `group.*` settings draw."""

from __future__ import annotations

from penstock.config.declare import SECOND_MS, Rule, at_least, boolean, integer, one_of, string
from penstock.config.durations import is_by_duration


def _is_offset_reset(text: str) -> bool:
    return text in ("earliest", "latest") or is_by_duration(text)


OFFSET_RESET = Rule(_is_offset_reset, "earliest, latest, or by_duration: and a duration such as PT24H")

CONSUMER = (
    integer("consumer.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "How long a member of the consumer group may be silent before it is put out."
    ),
    integer("consumer.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "How often the members of the consumer group are told to send a heartbeat."
    ),
    integer("consumer.assignment.interval.ms", SECOND_MS, at_least(0)).means(
        "How much time lies at least between two assignments of the consumer group."
    ),
)

SHARE = (
    integer("share.session.timeout.ms", 45 * SECOND_MS, at_least(1)).not_yet(
        "How long a member of the share group may be silent before it is put out."
    ),
    integer("share.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).not_yet(
        "How often the members of the share group are told to send a heartbeat."
    ),
    integer("share.assignment.interval.ms", SECOND_MS, at_least(0)).not_yet(
        "How much time lies at least between two assignments of the share group."
    ),
    integer("share.record.lock.duration.ms", 30 * SECOND_MS, at_least(SECOND_MS)).not_yet(
        "How long a member has a record to itself before another may get it."
    ),
    integer("share.delivery.count.limit", 5, at_least(2)).not_yet(
        "How often a record is delivered before it counts as undeliverable."
    ),
    integer("share.partition.max.record.locks", 2000, at_least(100)).not_yet(
        "How many records of one partition the share group may have under way."
    ),
    string("share.auto.offset.reset", "latest", OFFSET_RESET).not_yet(
        "Where the share group begins in a partition that is new to it: at the start, at the end, or some "
        "time back."
    ),
    string("share.isolation.level", "read_uncommitted", one_of("read_committed", "read_uncommitted")).not_yet(
        "Whether the share group gets records of transactions that are open or were rolled back."
    ),
    boolean("share.renew.acknowledge.enable", True).not_yet(
        "Let members ask for more time with a record that they hold."
    ),
)

STREAMS = (
    integer("streams.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "How long a member of the streams group may be silent before it is put out."
    ),
    integer("streams.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "How often the members of the streams group are told to send a heartbeat."
    ),
    integer("streams.assignment.interval.ms", SECOND_MS, at_least(0)).means(
        "How much time lies at least between two assignments of the streams group."
    ),
    integer("streams.num.standby.replicas", 0, at_least(0)).means(
        "How many copies of each task's state are kept warm elsewhere."
    ),
    integer("streams.initial.rebalance.delay.ms", 3 * SECOND_MS, at_least(0)).means(
        "How long the new streams group waits for more members before its first assignment."
    ),
)

SETTINGS = CONSUMER + SHARE + STREAMS

# Where a group is silent, the broker's setting of the same name, with `group.` in front, speaks. These have none.
WITHOUT_BROKER_SYNONYM = {
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.renew.acknowledge.enable",
}
BROKER_SYNONYMS = {s.name: f"group.{s.name}" for s in SETTINGS if s.name not in WITHOUT_BROKER_SYNONYM}
