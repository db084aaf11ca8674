"""`kafka-reassign-partitions.sh`: generate, execute, verify, cancel and list moves of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, BadFlags, Flag, Flags, Said, run_tool

if TYPE_CHECKING:
    from penstock.cli.reassigning import Assignment, Plan, ReassigningAdmin
    from penstock.client.cluster import TopicPartition

FLAGS = Flags(
    "This tool helps to move topic partitions between replicas.",
    BOOTSTRAP_SERVER,
    Flag("bootstrap-controller", "The controllers to connect to.", "controller to connect to"),
    COMMAND_CONFIG,
    Flag("generate", "Generate a candidate partition reassignment configuration."),
    Flag("execute", "Kick off the reassignment as --reassignment-json-file says."),
    Flag("verify", "Verify if the reassignment completed as --reassignment-json-file says."),
    Flag("cancel", "Cancel an active reassignment."),
    Flag("list", "List all active partition reassignments."),
    Flag(
        "reassignment-json-file",
        "The JSON file with the partition reassignment.",
        "manual assignment json file path",
    ),
    Flag(
        "topics-to-move-json-file", "The JSON file with topics to move.", "topics to reassign json file path"
    ),
    Flag("broker-list", "The brokers to which the partitions are to be moved: 0,1,2", "brokerlist"),
    Flag("throttle", "Copy no more between brokers, in bytes a second.", "Long: throttle", default="-1"),
    Flag("replica-alter-log-dirs-throttle", "Copy no more between directories.", "Long", default="-1"),
    Flag("timeout", "Milliseconds to wait for a move between directories to begin.", "Long", default="10000"),
    Flag("additional", "Execute this in addition to what is going on."),
    Flag("preserve-throttles", "Do not modify throttles."),
    Flag("disable-rack-aware", "Do not care for racks."),
    Flag("disallow-replication-factor-change", "Refuse plans that change how many replicas there are."),
)

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
ONE_ACTION = "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list"
NEEDED = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
VERIFY_LATER = (
    "Warning: You must run --verify periodically, until the reassignment completes, "
    "to ensure the throttle is removed."
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    from penstock.cli.kafka.tools import ask_cluster, chosen, message_of, require
    from penstock.cli.reassigning import BadPlan, ReassigningAdmin
    from penstock.client.errors import NoBrokersAvailable, PenstockError

    action = chosen(said, ACTIONS, ONE_ACTION)
    require(said, *NEEDED[action])
    work = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel, "list": _list}
    try:
        ask_cluster(said, ReassigningAdmin, lambda admin: work[action](said, admin))
    except NoBrokersAvailable:
        raise
    except (PenstockError, BadPlan) as problem:
        print(message_of(problem) if isinstance(problem, BadPlan) else f"Error: {message_of(problem)}")
        return FAILED
    return 0


async def _generate(said: Said, admin: ReassigningAdmin) -> None:
    from penstock.cli import reassigning

    try:
        brokers = [int(part) for part in said.text("broker-list").split(",")]
    except ValueError:
        raise BadFlags(f'For input string: "{said.text("broker-list")}"') from None
    if len(set(brokers)) < len(brokers):
        raise reassigning.BadPlan(f"Broker list contains duplicate entries: {brokers}")
    topics = reassigning.read_topics(_read(said, "topics-to-move-json-file"))
    current = await reassigning.current_replicas(admin, topics)
    there = [broker for broker in (await admin.describe_cluster()).brokers if broker.id in brokers]
    directories = await reassigning.current_directories(admin, current)
    print(f"Current partition replica assignment\n{reassigning.to_json(current, directories)}\n")
    proposed = reassigning.propose(current, there)
    print(f"Proposed partition reassignment configuration\n{reassigning.to_json(proposed)}")


async def _execute(said: Said, admin: ReassigningAdmin) -> None:
    from penstock.cli import reassigning
    from penstock.cli.kafka.tools import message_of
    from penstock.client.errors import ItemsFailed

    plan = _plan(said)
    if not said.has("additional") and await admin.list_reassignments():
        raise reassigning.BadPlan(EXISTING)
    known = {broker.id for broker in (await admin.describe_cluster()).brokers}
    for broker in sorted({broker for brokers in plan.replicas.values() for broker in brokers} - known):
        raise reassigning.BadPlan(f"Error: Unknown broker id {broker}")
    current = await _current(admin, plan)
    directories = await reassigning.current_directories(admin, current)
    print(
        f"Current partition replica assignment\n\n{reassigning.to_json(current, directories)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )
    throttle = said.integer("throttle") or -1
    if throttle >= 0:
        print(VERIFY_LATER)
        await reassigning.set_throttle(admin, plan.replicas, current, throttle)
        print(f"The inter-broker throttle limit was set to {throttle} B/s")
    try:
        await admin.reassign_partitions(
            plan.replicas,
            allow_replication_factor_change=not said.has("disallow-replication-factor-change"),
        )
    except ItemsFailed as failed:
        told = "\n".join(f"{where}: {message_of(error)}" for where, error in sorted(failed.failures.items()))
        raise reassigning.BadPlan(f"Error reassigning partition(s):\n{told}") from None
    print(f"Successfully started partition reassignment{_s(plan.replicas)} for {_names(plan.replicas)}")
    if plan.directories:
        await admin.alter_replica_log_dirs(plan.directories, timeout=said.number("timeout") / 1000)
        for replica, path in sorted(plan.directories.items()):
            print(
                f"Successfully started moving log directory to {path} for replica "
                f"{replica.topic}-{replica.partition} with broker {replica.broker} "
            )


async def _current(admin: ReassigningAdmin, plan: Plan) -> Assignment:
    from penstock.cli import reassigning

    found = await reassigning.current_replicas(admin, sorted({each.topic for each in plan.replicas}))
    if missing := sorted(set(plan.replicas) - set(found)):
        raise reassigning.BadPlan(f"Error: Unable to find partition: {', '.join(map(str, missing))}")
    return {partition: found[partition] for partition in plan.replicas}


async def _verify(said: Said, admin: ReassigningAdmin) -> None:
    from penstock.cli import reassigning

    plan = _plan(said)
    progress, moving = await reassigning.progress_of(admin, plan.replicas)
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
    if moving or is_moving or said.has("preserve-throttles"):
        return
    # Of brokers that are there: Kafka's tool waits a minute for the others, and then gives up.
    brokers = {broker.id for broker in (await admin.describe_cluster()).brokers}
    topics = sorted({partition.topic for partition in plan.replicas})
    print(f"Clearing broker-level throttles on broker{_s(brokers)} {','.join(map(str, sorted(brokers)))}")
    print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
    await reassigning.clear_throttles(admin, sorted(brokers), topics)


async def _verify_directories(admin: ReassigningAdmin, plan: Plan) -> bool:
    """Tell how far moves between directories have come; whether any goes on."""
    if not plan.directories:
        return False
    found = await admin.describe_log_dirs(sorted({replica.broker for replica in plan.directories}))
    is_moving = False
    for replica, target in sorted(plan.directories.items(), key=lambda item: (item[0].broker, item[0])):
        lies = {
            size.is_future: directory.path
            for directory in found[replica.broker]
            for size in directory.replicas
            if size.partition == (replica.topic, replica.partition)
        }
        name = f"{replica.topic}-{replica.partition}"
        if False not in lies:
            print(f"Partition {name} cannot be found in any live log directory on broker {replica.broker}.")
        elif True in lies:
            is_moving = True
            print(f"Reassignment of replica {name}-{replica.broker} is still in progress.")
        elif lies[False] == target:
            print(f"Reassignment of replica {name}-{replica.broker} completed successfully.")
        else:
            print(
                f"Partition {name} on broker {replica.broker} is not being moved "
                f"from log dir {lies[False]} to {target}."
            )
    return is_moving


async def _cancel(said: Said, admin: ReassigningAdmin) -> None:
    from penstock.cli import reassigning

    plan = _plan(said)
    moving = await admin.list_reassignments(plan.replicas)
    if not moving:
        print("None of the specified partition reassignments are active.")
    else:
        await admin.reassign_partitions(dict.fromkeys(moving))
        print(f"Successfully cancelled partition reassignment{_s(moving)} for: {_names(moving)}")
    print("None of the specified partition moves are active.", end="")
    if not said.has("preserve-throttles"):
        brokers = sorted(broker.id for broker in (await admin.describe_cluster()).brokers)
        topics = sorted({partition.topic for partition in plan.replicas})
        print(f"Clearing broker-level throttles on broker{_s(brokers)} {','.join(map(str, brokers))}")
        print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
        await reassigning.clear_throttles(admin, brokers, topics)


async def _list(said: Said, admin: ReassigningAdmin) -> None:
    moving = await admin.list_reassignments()
    if not moving:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition, move in sorted(moving.items()):
        adding = f" adding: {','.join(map(str, move.adding))}." if move.adding else ""
        removing = f" removing: {','.join(map(str, move.removing))}." if move.removing else ""
        print(f"{partition}: replicas: {','.join(map(str, move.replicas))}.{adding}{removing}")


def _plan(said: Said) -> Plan:
    from penstock.cli.reassigning import read_plan

    return read_plan(_read(said, "reassignment-json-file"))


def _read(said: Said, flag: str) -> str:
    with open(said.text(flag), encoding="utf-8") as file:
        return file.read()


def _s(things: Sequence[object] | Iterable[object]) -> str:
    return "" if len(list(things)) == 1 else "s"


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(map(str, sorted(partitions)))
