"""`kafka-metadata-quorum.sh {describe,add-controller,remove-controller}`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, BadFlags, Flag, Flags, Said, run_tool

if TYPE_CHECKING:
    from penstock.client.admin.quorum import QuorumDescription, QuorumReplica

FLAGS = Flags(
    "usage: kafka-metadata-quorum [-h] {describe,add-controller,remove-controller} ...",
    BOOTSTRAP_SERVER,
    Flag("bootstrap-controller", "The controllers to connect to.", "BOOTSTRAP_CONTROLLER"),
    COMMAND_CONFIG,
    Flag("status", "A short summary of the quorum status and the other provides detailed information."),
    Flag("replication", "Detailed information about the status of replication."),
    Flag("human-readable", "Times as people say them.", shorts=("--hr", "-hr")),
    Flag("controller-id", "The id of the controller to remove.", "CONTROLLER_ID", ("-i",)),
    Flag("controller-directory-id", "The directory ID of the controller.", "DIRECTORY_ID", ("-d",)),
    Flag("dry-run", "True to perform a dry run."),
    words="command",
)

NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    from penstock.cli.kafka.tools import fail, message_of
    from penstock.client.errors import BrokerError

    try:
        match said.words:
            case ["describe"]:
                if said.has("status") == said.has("replication"):
                    how = "Only one" if said.has("status") else "One"
                    return fail(
                        f"{how} of --status or --replication must be specified with describe sub-command"
                    )
                _describe(said)
            case ["remove-controller"]:
                _remove(said)
            case ["add-controller"]:
                _add(said)
            case []:
                raise BadFlags("kafka-metadata-quorum: error: too few arguments")
            case words:
                raise BadFlags(f"kafka-metadata-quorum: error: invalid choice: '{words[0]}'")
    except BrokerError as refused:
        return fail(message_of(refused))
    return 0


def _describe(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster, print_table
    from penstock.client.admin.cluster import ClusterAdmin
    from penstock.client.admin.quorum import QuorumAdmin

    class Describing(QuorumAdmin, ClusterAdmin):
        pass

    async def work(admin: Describing) -> tuple[QuorumDescription, str | None]:
        return await admin.describe_quorum(), (await admin.describe_cluster()).cluster_id

    quorum, cluster_id = ask_cluster(said, Describing, work)
    if said.has("status"):
        _print_status(quorum, cluster_id)
        return
    end = _end_offset(quorum)
    roles = [("Follower", replica) for replica in quorum.voters if replica.id != quorum.leader]
    roles += [("Observer", replica) for replica in quorum.observers]
    leaders = [("Leader", replica) for replica in quorum.voters if replica.id == quorum.leader]
    shown = _ago if said.has("human-readable") else _number
    print_table(
        [
            "NodeId",
            "DirectoryId",
            "LogEndOffset",
            "Lag",
            "LastFetchTimestamp",
            "LastCaughtUpTimestamp",
            "Status",
        ],
        [
            (
                replica.id,
                replica.directory_id or NO_DIRECTORY,
                replica.log_end_offset,
                end - replica.log_end_offset,
                shown(replica.last_fetch_ms),
                shown(replica.last_caught_up_ms),
                role,
            )
            for role, replica in [*leaders, *roles]
        ],
    )


def _end_offset(quorum: QuorumDescription) -> int:
    return next((voter.log_end_offset for voter in quorum.voters if voter.id == quorum.leader), 0)


def _number(moment_ms: int | None) -> str:
    return "-1" if moment_ms is None else str(moment_ms)


def _ago(moment_ms: int | None) -> str:
    return "-1" if moment_ms is None else f"{max(0, round(time.time() * 1000) - moment_ms)} ms ago"


def _print_status(quorum: QuorumDescription, cluster_id: str | None) -> None:
    end = _end_offset(quorum)
    others = [voter for voter in quorum.voters if voter.id != quorum.leader]
    last = max(others, key=lambda voter: end - voter.log_end_offset, default=None)
    lag_ms: int = 0
    if last is not None and last.log_end_offset < end:
        leader = next(voter for voter in quorum.voters if voter.id == quorum.leader)
        caught_up, now = last.last_caught_up_ms, leader.last_caught_up_ms
        lag_ms = -1 if caught_up is None or now is None else max(0, now - caught_up)
    facts = {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": 0 if last is None else end - last.log_end_offset,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _replicas(quorum, quorum.voters),
        "CurrentObservers": _replicas(quorum, quorum.observers),
    }
    for name, value in facts.items():
        print(f"{name + ':':<24}{value}")


def _replicas(quorum: QuorumDescription, replicas: Sequence[QuorumReplica]) -> str:
    endpoints = {node.id: node.endpoints for node in quorum.nodes}
    told = []
    for replica in replicas:
        directory = replica.directory_id
        parts = [f'"id": {replica.id}']
        parts += [f'"directoryId": "{directory}"'] if directory is not None else []
        if where := endpoints.get(replica.id):
            names = ", ".join(f'"{each.listener}://{each.host}:{each.port}"' for each in where)
            parts.append(f'"endpoints": [{names}]')
        told.append("{" + ", ".join(parts) + "}")
    return f"[{', '.join(told)}]"


def _remove(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster, require
    from penstock.client.admin.quorum import QuorumAdmin

    require(said, "controller-id", "controller-directory-id")
    node, directory = said.number("controller-id"), said.text("controller-directory-id")
    if not said.has("dry-run"):
        ask_cluster(said, QuorumAdmin, lambda admin: admin.remove_voter(node, directory))
    done = "DRY RUN of removing" if said.has("dry-run") else "Removed"
    print(f"{done}  KRaft controller {node} with directory id {directory}")


def _add(said: Said) -> None:
    """The controller that is added is described by its own settings, which --command-config names."""
    from penstock.cli.kafka.tools import ask_cluster, require
    from penstock.cli.storage import inspect_directories, load_settings
    from penstock.client.admin.quorum import Endpoint, QuorumAdmin
    from penstock.protocol.types import uuid_text

    require(said, "command-config")
    file = said.text("command-config")
    settings = load_settings(file)
    identity = next((one.identity for one in inspect_directories(settings) if one.is_metadata), None)
    if identity is None or identity.directory_id is None:
        raise BadFlags(f"The metadata directory that {file} names is not formatted.")
    directory = uuid_text(identity.directory_id)
    endpoints = [
        Endpoint(listener=each.name, host=each.host or "localhost", port=each.port)
        for each in settings.controller_listeners
    ]
    if not said.has("dry-run"):
        ask_cluster(said, QuorumAdmin, lambda admin: admin.add_voter(settings.node_id, directory, endpoints))
    done = "DRY RUN of adding" if said.has("dry-run") else "Added"
    where = ", ".join(f"{each.listener}://{each.host}:{each.port}" for each in endpoints)
    print(f"{done} controller {settings.node_id} with directory id {directory} and endpoints: {where}")
