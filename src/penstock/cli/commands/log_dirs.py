"""`penstock log-dirs`: size and replicas of log directories, and moving replicas between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Column, Output, show_bytes

if TYPE_CHECKING:
    from penstock.client.admin.log_dirs import Replica

command = Group(
    help="Show the size of log directories, and move replicas between them.", kafka="kafka-log-dirs"
)

BROKERS = option("--broker", help="Only this broker. May be repeated.")


@command.command("list", examples=["penstock log-dirs list", "penstock log-dirs list --broker 1 --json"])
def list_directories(
    *, connection: Connection, output: Output, brokers: Annotated[tuple[int, ...], BROKERS] = ()
) -> None:
    """Show the size of each log directory and the free space of its volume."""
    from penstock.client.admin.log_dirs import LogDirsAdmin

    found = connection.with_admin(LogDirsAdmin, lambda admin: admin.describe_log_dirs(list(brokers) or None))
    output.table(
        [
            "broker",
            "directory",
            "replicas",
            Column("size_bytes", "size", show_bytes),
            Column("total_bytes", "volume", show_bytes),
            Column("usable_bytes", "free", show_bytes),
            Column("is_cordoned", "cordoned"),
            "error",
        ],
        [
            (
                broker,
                directory.path,
                len(directory.replicas),
                sum(replica.size_bytes for replica in directory.replicas),
                directory.total_bytes,
                directory.usable_bytes,
                directory.is_cordoned,
                None if directory.error is None else str(directory.error),
            )
            for broker, directories in sorted(found.items())
            for directory in directories
        ],
    )


@command.command(
    "describe", examples=["penstock log-dirs describe orders", "penstock log-dirs describe --json"]
)
def describe(
    topics: Annotated[
        tuple[str, ...],
        argument(metavar="TOPIC...", help="Topics, by default all.", complete="topic"),
    ] = (),
    *,
    connection: Connection,
    output: Output,
    brokers: Annotated[tuple[int, ...], BROKERS] = (),
) -> None:
    """Show the log directory and the size of each replica."""
    from penstock.client.admin.log_dirs import LogDirsAdmin

    found = connection.with_admin(
        LogDirsAdmin,
        lambda admin: admin.describe_log_dirs(list(brokers) or None, topics=topics or None),
    )
    output.table(
        [
            "broker",
            "topic",
            "partition",
            Column("size_bytes", "size", show_bytes),
            "lag",
            Column("is_future", "moving here"),
            "directory",
        ],
        [
            (
                broker,
                *replica.partition,
                replica.size_bytes,
                replica.offset_lag,
                replica.is_future,
                directory.path,
            )
            for broker, directories in sorted(found.items())
            for directory in directories
            for replica in directory.replicas
        ],
        empty="No replicas.",
    )


@command.command("move", examples=["penstock log-dirs move orders:0@1=/data/2"])
def move(
    moves: Annotated[
        list[str],
        argument(
            metavar="REPLICA=DIRECTORY...",
            help="Replicas as TOPIC:PARTITION@BROKER, and the target directory of each.",
        ),
    ],
    *,
    connection: Connection,
    output: Output,
) -> None:
    """Start moving replicas to other log directories of their brokers."""
    from penstock.client.admin.log_dirs import LogDirsAdmin

    wanted = dict(map(_read_move, moves))
    connection.with_admin(LogDirsAdmin, lambda admin: admin.alter_replica_log_dirs(wanted))
    output.table(
        ["topic", "partition", "broker", "directory"],
        [(*replica, directory) for replica, directory in sorted(wanted.items())],
    )


def _read_move(text: str) -> tuple[Replica, str]:
    from penstock.cli.failures import Misuse
    from penstock.cli.values import read_partition
    from penstock.client.admin.log_dirs import Replica

    replica, separator, directory = text.partition("=")
    partition, at, broker = replica.rpartition("@")
    if not (separator and at and broker.isdecimal() and directory):
        raise Misuse(f"{text}: must be topic:partition@broker=directory, such as orders:0@1=/data/2")
    return Replica(*read_partition(partition), int(broker)), directory
