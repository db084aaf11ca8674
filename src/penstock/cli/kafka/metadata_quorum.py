"""`kafka-metadata-quorum.sh {describe,add-controller,remove-controller}`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.flags import UsageError
from penstock.cli.kafka.tool import (
    BOOTSTRAP_CONTROLLER,
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Options,
    Tool,
    flag,
)

if TYPE_CHECKING:
    from penstock.client.admin.quorum import QuorumDescription, QuorumReplica

TOOL = Tool(
    "usage: kafka-metadata-quorum [-h] {describe,add-controller,remove-controller} ...",
    BOOTSTRAP_SERVER,
    BOOTSTRAP_CONTROLLER,
    COMMAND_CONFIG,
    flag("status", "A short summary of the quorum status."),
    flag("replication", "Detailed information about the status of replication."),
    flag("human-readable", "Show times relative to now.", also=("--hr", "-hr")),
    flag("controller-id", "The id of the controller to remove.", "CONTROLLER_ID", ("-i",)),
    flag("controller-directory-id", "The directory ID of the controller.", "DIRECTORY_ID", ("-d",)),
    flag("dry-run", "Perform a dry run."),
    program="kafka-metadata-quorum",
    commands={
        "describe": (),
        "add-controller": ("command-config",),
        "remove-controller": ("controller-id", "controller-directory-id"),
    },
)

NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import fail, message_of
    from penstock.client.errors import BrokerError

    try:
        match options.words[0]:
            case "describe":
                if options.has("status") == options.has("replication"):
                    how = "Only one" if options.has("status") else "One"
                    return fail(
                        f"{how} of --status or --replication must be specified with describe sub-command"
                    )
                _describe(options)
            case "remove-controller":
                _remove(options)
            case _:
                _add(options)
    except BrokerError as refused:
        return fail(message_of(refused))
    return 0


def _describe(options: Options) -> None:
    from penstock.cli.kafka.admin import print_table, with_admin
    from penstock.client.admin.cluster import ClusterAdmin
    from penstock.client.admin.quorum import QuorumAdmin

    class QuorumAndClusterAdmin(QuorumAdmin, ClusterAdmin):
        pass

    async def work(admin: QuorumAndClusterAdmin) -> tuple[QuorumDescription, str | None]:
        return await admin.describe_quorum(), (await admin.describe_cluster()).cluster_id

    quorum, cluster_id = with_admin(options, QuorumAndClusterAdmin, work)
    if options.has("status"):
        _print_status(quorum, cluster_id)
        return
    end = _end_offset(quorum)
    roles = [("Follower", replica) for replica in quorum.voters if replica.id != quorum.leader]
    roles += [("Observer", replica) for replica in quorum.observers]
    leaders = [("Leader", replica) for replica in quorum.voters if replica.id == quorum.leader]
    shown = _ago if options.has("human-readable") else _number
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
    texts = []
    for replica in replicas:
        directory = replica.directory_id
        parts = [f'"id": {replica.id}']
        parts += [f'"directoryId": "{directory}"'] if directory is not None else []
        if where := endpoints.get(replica.id):
            names = ", ".join(f'"{each.listener}://{each.host}:{each.port}"' for each in where)
            parts.append(f'"endpoints": [{names}]')
        texts.append("{" + ", ".join(parts) + "}")
    return f"[{', '.join(texts)}]"


def _remove(options: Options) -> None:
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.quorum import QuorumAdmin
    from penstock.protocol.types import parse_uuid

    node, directory = options.number("controller-id"), options.text("controller-directory-id")
    try:
        parse_uuid(directory)
    except ValueError as error:
        raise UsageError(f"Failed to parse --controller-directory-id: {error}") from None
    if not options.has("dry-run"):
        with_admin(options, QuorumAdmin, lambda admin: admin.remove_voter(node, directory))
    done = "DRY RUN of removing" if options.has("dry-run") else "Removed"
    print(f"{done}  KRaft controller {node} with directory id {directory}")


def _add(options: Options) -> None:
    """The settings of the new controller come from --command-config."""
    from penstock.cli.kafka.admin import with_admin
    from penstock.cli.storage import inspect_directories, load_settings
    from penstock.client.admin.quorum import Endpoint, QuorumAdmin
    from penstock.protocol.types import uuid_text

    file = options.text("command-config")
    settings = load_settings(file)
    identity = next((one.identity for one in inspect_directories(settings) if one.is_metadata), None)
    if identity is None or identity.directory_id is None:
        raise UsageError(f"The metadata directory of {file} is not formatted.")
    directory = uuid_text(identity.directory_id)
    endpoints = [
        Endpoint(listener=each.name, host=each.host or "localhost", port=each.port)
        for each in settings.controller_listeners
    ]
    if not options.has("dry-run"):
        with_admin(
            options, QuorumAdmin, lambda admin: admin.add_voter(settings.node_id, directory, endpoints)
        )
    done = "DRY RUN of adding" if options.has("dry-run") else "Added"
    where = ", ".join(f"{each.listener}://{each.host}:{each.port}" for each in endpoints)
    print(f"{done} controller {settings.node_id} with directory id {directory} and endpoints: {where}")
