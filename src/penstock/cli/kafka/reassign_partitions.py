"""`kafka-reassign-partitions.sh`: generate, execute, verify, cancel and list moves of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.flags import OneOf, UsageError
from penstock.cli.kafka.tool import (
    BOOTSTRAP_CONTROLLER,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Options,
    Tool,
    flag,
)

if TYPE_CHECKING:
    from penstock.cli.reassignment import Assignment, Plan, ReassigningAdmin
    from penstock.client.cluster import TopicPartition

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
PLAN = ("reassignment-json-file",)

TOOL = Tool(
    "This tool helps to move topic partitions between replicas.",
    BOOTSTRAP_SERVER,
    BOOTSTRAP_CONTROLLER,
    COMMAND_CONFIG,
    flag(
        "generate",
        "Generate a candidate partition reassignment configuration.",
        needs=("topics-to-move-json-file", "broker-list"),
    ),
    flag("execute", "Start the reassignment of --reassignment-json-file.", needs=PLAN),
    flag("verify", "Verify that the reassignment of --reassignment-json-file has completed.", needs=PLAN),
    flag("cancel", "Cancel an active reassignment.", needs=PLAN),
    flag("list", "List all active partition reassignments."),
    flag(
        "reassignment-json-file",
        "The JSON file with the partition reassignment.",
        "manual assignment json file path",
    ),
    flag(
        "topics-to-move-json-file", "The JSON file with topics to move.", "topics to reassign json file path"
    ),
    flag("broker-list", "The target brokers: 0,1,2", "brokerlist"),
    flag(
        "throttle", "Limit of replication between brokers, in bytes a second.", "Long: throttle", default="-1"
    ),
    flag("replica-alter-log-dirs-throttle", "Limit of copies between directories.", "Long", default="-1"),
    flag(
        "timeout",
        "Milliseconds to wait for the start of a move between directories.",
        "Long",
        default="10000",
    ),
    flag("additional", "Execute in addition to active reassignments."),
    flag("preserve-throttles", "Do not modify throttles."),
    flag("disable-rack-aware", "Ignore racks."),
    flag("disallow-replication-factor-change", "Reject plans that change the replication factor."),
    one_of=[
        OneOf(
            ACTIONS,
            "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list",
        )
    ],
)

EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
VERIFY_LATER = (
    "Warning: You must run --verify periodically, until the reassignment completes, "
    "to ensure the throttle is removed."
)


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import message_of, with_admin
    from penstock.cli.reassignment import BadPlan, ReassigningAdmin
    from penstock.client.errors import NoBrokersAvailable, PenstockError

    action = options.given(ACTIONS)
    work = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel, "list": _list}
    try:
        with_admin(options, ReassigningAdmin, lambda admin: work[action](options, admin))
    except NoBrokersAvailable:
        raise
    except (PenstockError, BadPlan) as problem:
        print(message_of(problem) if isinstance(problem, BadPlan) else f"Error: {message_of(problem)}")
        return FAILED
    return 0


async def _generate(options: Options, admin: ReassigningAdmin) -> None:
    from penstock.cli import reassignment

    try:
        brokers = [int(part) for part in options.text("broker-list").split(",")]
    except ValueError:
        raise UsageError(f'For input string: "{options.text("broker-list")}"') from None
    if len(set(brokers)) < len(brokers):
        raise reassignment.BadPlan(f"Broker list contains duplicate entries: {brokers}")
    topics = reassignment.read_topics(_read(options, "topics-to-move-json-file"))
    current = await reassignment.current_replicas(admin, topics)
    there = [broker for broker in (await admin.describe_cluster()).brokers if broker.id in brokers]
    directories = await reassignment.current_directories(admin, current)
    print(f"Current partition replica assignment\n{reassignment.to_json(current, directories)}\n")
    proposed = reassignment.propose(current, there)
    print(f"Proposed partition reassignment configuration\n{reassignment.to_json(proposed)}")


async def _execute(options: Options, admin: ReassigningAdmin) -> None:
    from penstock.cli import reassignment
    from penstock.cli.kafka.admin import message_of
    from penstock.client.errors import ItemsFailed

    plan = _plan(options)
    if not options.has("additional") and await admin.list_reassignments():
        raise reassignment.BadPlan(EXISTING)
    known = {broker.id for broker in (await admin.describe_cluster()).brokers}
    for broker in sorted({broker for brokers in plan.replicas.values() for broker in brokers} - known):
        raise reassignment.BadPlan(f"Error: Unknown broker id {broker}")
    current = await _current(admin, plan)
    directories = await reassignment.current_directories(admin, current)
    print(
        f"Current partition replica assignment\n\n{reassignment.to_json(current, directories)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    throttle = options.integer("throttle") or -1
    if throttle >= 0:
        print(VERIFY_LATER)
        await reassignment.set_throttle(admin, plan.replicas, current, throttle)
        print(f"The inter-broker throttle limit was set to {throttle} B/s")
    try:
        await admin.reassign_partitions(
            plan.replicas,
            allow_replication_factor_change=not options.has("disallow-replication-factor-change"),
        )
    except ItemsFailed as failed:
        errors = "\n".join(
            f"{where}: {message_of(error)}" for where, error in sorted(failed.failures.items())
        )
        raise reassignment.BadPlan(f"Error reassigning partition(s):\n{errors}") from None
    print(f"Successfully started partition reassignment{_s(plan.replicas)} for {_names(plan.replicas)}")
    if plan.directories:
        await admin.alter_replica_log_dirs(plan.directories, timeout=options.number("timeout") / 1000)
        for replica, path in sorted(plan.directories.items()):
            print(
                f"Successfully started moving log directory to {path} for replica "
                f"{replica.topic}-{replica.partition} with broker {replica.broker} "
            )


async def _current(admin: ReassigningAdmin, plan: Plan) -> Assignment:
    from penstock.cli import reassignment

    found = await reassignment.current_replicas(admin, sorted({each.topic for each in plan.replicas}))
    if missing := sorted(set(plan.replicas) - set(found)):
        raise reassignment.BadPlan(f"Error: Unable to find partition: {', '.join(map(str, missing))}")
    return {partition: found[partition] for partition in plan.replicas}


async def _verify(options: Options, admin: ReassigningAdmin) -> None:
    from penstock.cli import reassignment

    plan = _plan(options)
    progress, moving = await reassignment.progress_of(admin, plan.replicas)
    print("Status of partition reassignment:")
    for partition, how in progress.items():
        if how.is_moving:
            print(f"Reassignment of partition {partition} is still in progress.")
        elif how.is_done:
            print(f"Reassignment of partition {partition} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {partition}, but replica set is "
                f"{','.join(map(str, how.replicas))} rather than {','.join(map(str, how.target))}."
            )
    is_moving = await _verify_directories(admin, plan)
    print()
    if moving or is_moving or options.has("preserve-throttles"):
        return
    # Only of available brokers: Kafka's tool waits a minute for the others and then fails.
    brokers = {broker.id for broker in (await admin.describe_cluster()).brokers}
    topics = sorted({partition.topic for partition in plan.replicas})
    print(f"Clearing broker-level throttles on broker{_s(brokers)} {','.join(map(str, sorted(brokers)))}")
    print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
    await reassignment.clear_throttles(admin, sorted(brokers), topics)


async def _verify_directories(admin: ReassigningAdmin, plan: Plan) -> bool:
    """Print the progress of moves between directories. Returns whether any is active."""
    if not plan.directories:
        return False
    found = await admin.describe_log_dirs(sorted({replica.broker for replica in plan.directories}))
    is_moving = False
    for replica, target in sorted(plan.directories.items(), key=lambda item: (item[0].broker, item[0])):
        paths = {
            size.is_future: directory.path
            for directory in found[replica.broker]
            for size in directory.replicas
            if size.partition == (replica.topic, replica.partition)
        }
        name = f"{replica.topic}-{replica.partition}"
        if False not in paths:
            print(f"Partition {name} cannot be found in any live log directory on broker {replica.broker}.")
        elif True in paths:
            is_moving = True
            print(f"Reassignment of replica {name}-{replica.broker} is still in progress.")
        elif paths[False] == target:
            print(f"Reassignment of replica {name}-{replica.broker} completed successfully.")
        else:
            print(
                f"Partition {name} on broker {replica.broker} is not being moved "
                f"from log dir {paths[False]} to {target}."
            )
    return is_moving


async def _cancel(options: Options, admin: ReassigningAdmin) -> None:
    from penstock.cli import reassignment

    plan = _plan(options)
    moving = await admin.list_reassignments(plan.replicas)
    if not moving:
        print("None of the specified partition reassignments are active.")
    else:
        await admin.reassign_partitions(dict.fromkeys(moving))
        print(f"Successfully cancelled partition reassignment{_s(moving)} for: {_names(moving)}")
    print("None of the specified partition moves are active.", end="")
    if not options.has("preserve-throttles"):
        brokers = sorted(broker.id for broker in (await admin.describe_cluster()).brokers)
        topics = sorted({partition.topic for partition in plan.replicas})
        print(f"Clearing broker-level throttles on broker{_s(brokers)} {','.join(map(str, brokers))}")
        print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
        await reassignment.clear_throttles(admin, brokers, topics)


async def _list(options: Options, admin: ReassigningAdmin) -> None:
    moving = await admin.list_reassignments()
    if not moving:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition, move in sorted(moving.items()):
        adding = f" adding: {','.join(map(str, move.adding))}." if move.adding else ""
        removing = f" removing: {','.join(map(str, move.removing))}." if move.removing else ""
        print(f"{partition}: replicas: {','.join(map(str, move.replicas))}.{adding}{removing}")


def _plan(options: Options) -> Plan:
    from penstock.cli.reassignment import read_plan

    return read_plan(_read(options, "reassignment-json-file"))


def _read(options: Options, flag: str) -> str:
    with open(options.text(flag), encoding="utf-8") as file:
        return file.read()


def _s(things: Sequence[object] | Iterable[object]) -> str:
    return "" if len(list(things)) == 1 else "s"


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))
