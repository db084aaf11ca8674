"""`kafka-consumer-groups.sh --reset-offsets`: makes a plan from flags or a CSV file, and executes it."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Mapping

from penstock.cli.flags import UsageError
from penstock.cli.group_resets import Deviation, Plan, Target, plan_reset, select_partitions
from penstock.cli.kafka.admin import with_admin
from penstock.cli.kafka.consumer_group_tables import print_reset
from penstock.cli.kafka.tool import Options
from penstock.client.admin.groups import GroupState
from penstock.client.admin.lag import LagAdmin
from penstock.client.cluster import TopicPartition
from penstock.client.errors import GroupIdNotFound

SCENARIOS = (
    "[[to-latest], [by-duration], [to-offset], [to-earliest], "
    "[to-datetime], [to-current], [shift-by], [from-file]]"
)


def reset_offsets(options: Options) -> None:
    from penstock.cli.kafka.consumer_groups import select_groups

    plan_of_file = _read_file(options) if options.has("from-file") else None
    target = None if plan_of_file is not None else _target(options)

    async def work(admin: LagAdmin) -> dict[str, Plan]:
        plans: dict[str, Plan] = {}
        for group_id in await select_groups(options, admin):
            if not await _is_idle(admin, group_id):
                plans[group_id] = {}
                continue
            if plan_of_file is not None:
                plan = plan_of_file.get(group_id, {})
            else:
                assert target is not None
                topics = options.all("topic")
                partitions = await select_partitions(
                    admin, group_id, topics, all_topics=options.has("all-topics")
                )
                plan = await plan_reset(admin, group_id, partitions, target, report=_report)
            if options.has("execute") and plan:
                await admin.alter_group_offsets(group_id, plan)
            plans[group_id] = plan
        return plans

    plans = with_admin(options, LagAdmin, work)
    if options.has("export"):
        print(_csv(plans, with_group=len(options.all("group")) != 1), end="\n")
    else:
        print_reset(plans)


def _report(deviation: Deviation) -> None:
    """Print Kafka's message to stdout, where scripts read it. What Kafka only logs goes to stderr."""
    if deviation.requested is not None:
        print(deviation, file=sys.stderr)
        return
    print(
        f"\nWarn: Partition {deviation.partition.partition} from topic {deviation.partition.topic} is empty. "
        "Falling back to latest known offset."
    )


async def _is_idle(admin: LagAdmin, group_id: str) -> bool:
    """Whether offsets can be reset: the group has no members, or does not exist yet."""
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


def _target(options: Options) -> Target:
    if not options.has("topic") and not options.has("all-topics"):
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    target = Target(
        to_earliest=options.has("to-earliest"),
        to_latest=options.has("to-latest"),
        to_current=options.has("to-current"),
        to_offset=options.integer("to-offset"),
        shift_by=options.integer("shift-by"),
        to_time_ms=_time(options),
    )
    if target == Target():
        raise UsageError(f"Option '[reset-offsets]' requires one of the following scenarios: {SCENARIOS}")
    return target


def _time(options: Options) -> int | None:
    moment, duration = options.get("to-datetime"), options.get("by-duration")
    if moment is not None:
        from datetime import UTC, datetime

        try:
            read = datetime.fromisoformat(moment)
        except ValueError:
            raise UsageError(
                f"Error parsing timestamp. It does not contain a 'T' according to ISO8601 format: {moment}"
            ) from None
        return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)
    return None if duration is None else round(time.time() * 1000) - _duration_ms(duration)


def _duration_ms(text: str) -> int:
    """`P1DT2H3M4.5S`, where each part is optional."""
    import re

    found = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text.upper())
    if found is None or not any(found.groups()):
        raise UsageError(f"Text cannot be parsed to a Duration: {text}")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _csv(plans: Mapping[str, Plan], *, with_group: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group_id, plan in plans.items():
        for partition, offset in plan.items():
            writer.writerow([group_id, *partition, offset] if with_group else [*partition, offset])
    return out.getvalue()


def _read_file(options: Options) -> dict[str, Plan]:
    """`topic,partition,offset` for one group, or `group,topic,partition,offset`."""
    path = options.text("from-file")
    plans: dict[str, Plan] = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            cells = row if len(row) == 4 else [*options.all("group")[:1], *row]
            try:
                group_id, topic, index, offset = cells
                plans.setdefault(group_id, {})[TopicPartition(topic, int(index))] = int(offset)
            except ValueError:
                raise UsageError(f"{path}: {','.join(row)} is not topic,partition,offset") from None
    return plans
