"""`kafka-consumer-groups.sh --reset-offsets`: from its flags, or a CSV file, to a plan, and to what comes of it."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Mapping

from penstock.cli.group_resets import Deviation, Plan, Target, partitions_meant, plan_reset
from penstock.cli.kafka.consumer_group_tables import print_reset
from penstock.cli.kafka.flags import BadFlags, Said
from penstock.cli.kafka.tools import ask_cluster
from penstock.client.admin.groups import GroupState
from penstock.client.admin.lag import LagAdmin
from penstock.client.cluster import TopicPartition
from penstock.client.errors import GroupIdNotFound

SCENARIOS = (
    "[[to-latest], [by-duration], [to-offset], [to-earliest], "
    "[to-datetime], [to-current], [shift-by], [from-file]]"
)


def reset_offsets(said: Said) -> None:
    from penstock.cli.kafka.consumer_groups import groups_meant

    plan_of_file = _read_file(said) if said.has("from-file") else None
    target = None if plan_of_file is not None else _target(said)

    async def work(admin: LagAdmin) -> dict[str, Plan]:
        plans: dict[str, Plan] = {}
        for group_id in await groups_meant(said, admin):
            if not await _is_idle(admin, group_id):
                plans[group_id] = {}
                continue
            if plan_of_file is not None:
                plan = plan_of_file.get(group_id, {})
            else:
                assert target is not None
                topics = said.all("topic")
                partitions = await partitions_meant(
                    admin, group_id, topics, all_topics=said.has("all-topics")
                )
                plan = await plan_reset(admin, group_id, partitions, target, tell=_tell)
            if said.has("execute") and plan:
                await admin.alter_group_offsets(group_id, plan)
            plans[group_id] = plan
        return plans

    plans = ask_cluster(said, LagAdmin, work)
    if said.has("export"):
        print(_csv(plans, with_group=len(said.all("group")) != 1), end="\n")
    else:
        print_reset(plans)


def _tell(told: Deviation) -> None:
    """In Kafka's words on stdout, which scripts read. What Kafka only logs goes to stderr."""
    if told.asked is not None:
        print(told, file=sys.stderr)
        return
    print(
        f"\nWarn: Partition {told.partition.partition} from topic {told.partition.topic} is empty. "
        "Falling back to latest known offset."
    )


async def _is_idle(admin: LagAdmin, group_id: str) -> bool:
    """A group that does not exist yet may be given offsets, for the day when it does."""
    try:
        group = await admin.describe_group(group_id)
    except GroupIdNotFound:
        return True
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return True
    print(
        f"\nError: Assignments can only be reset if the group '{group_id}' is inactive, "
        f"but the current state is {group.state}."
    )
    return False


def _target(said: Said) -> Target:
    if not said.has("topic") and not said.has("all-topics"):
        raise BadFlags("One of the reset scopes should be defined: --all-topics, --topic.")
    target = Target(
        to_earliest=said.has("to-earliest"),
        to_latest=said.has("to-latest"),
        to_current=said.has("to-current"),
        to_offset=said.integer("to-offset"),
        shift_by=said.integer("shift-by"),
        to_time_ms=_time(said),
    )
    if target == Target():
        raise BadFlags(f"Option '[reset-offsets]' requires one of the following scenarios: {SCENARIOS}")
    return target


def _time(said: Said) -> int | None:
    moment, duration = said.get("to-datetime"), said.get("by-duration")
    if moment is not None:
        from datetime import UTC, datetime

        try:
            read = datetime.fromisoformat(moment)
        except ValueError:
            raise BadFlags(
                f"Error parsing timestamp. It does not contain a 'T' according to ISO8601 format: {moment}"
            ) from None
        return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)
    return None if duration is None else round(time.time() * 1000) - _duration_ms(duration)


def _duration_ms(text: str) -> int:
    """`P1DT2H3M4.5S`, each part of which may be missing."""
    import re

    found = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text.upper())
    if found is None or not any(found.groups()):
        raise BadFlags(f"Text cannot be parsed to a Duration: {text}")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _csv(plans: Mapping[str, Plan], *, with_group: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group_id, plan in plans.items():
        for partition, offset in plan.items():
            writer.writerow([group_id, *partition, offset] if with_group else [*partition, offset])
    return out.getvalue()


def _read_file(said: Said) -> dict[str, Plan]:
    """`topic,partition,offset` for one group, or `group,topic,partition,offset`."""
    path = said.text("from-file")
    plans: dict[str, Plan] = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            cells = row if len(row) == 4 else [*said.all("group")[:1], *row]
            try:
                group_id, topic, index, offset = cells
                plans.setdefault(group_id, {})[TopicPartition(topic, int(index))] = int(offset)
            except ValueError:
                raise BadFlags(f"{path}: {','.join(row)} is not topic,partition,offset") from None
    return plans
