"""`penstock log-dirs`: what lies in which log directory, how full they are, and moving replicas between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Column, Output, show_bytes

if TYPE_CHECKING:
    from penstock.client.admin.log_dirs import Replica

command = Group(
    help="Tell how full log directories are, and move replicas between them.", kafka="kafka-log-dirs"
)

BROKERS = Option("--broker", help="Only of this broker. May be repeated.")


@command.command("list", examples=["penstock log-dirs list", "penstock log-dirs list --broker 1 --json"])
def list_directories(
    *, connection: Connection, output: Output, brokers: Annotated[tuple[int, ...], BROKERS] = ()
) -> None:
    """Tell how full each log directory is."""
    from penstock.cli.asking import ask
    from penstock.client.admin.log_dirs import LogDirsAdmin

    found = ask(
        connection.settings(), LogDirsAdmin, lambda admin: admin.describe_log_dirs(list(brokers) or None)
    )
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
        Argument(metavar="TOPIC...", help="Topics; all where none is named.", complete="topic"),
    ] = (),
    *,
    connection: Connection,
    output: Output,
    brokers: Annotated[tuple[int, ...], BROKERS] = (),
) -> None:
    """Tell where each replica lies, and how large it is."""
    from penstock.cli.asking import ask
    from penstock.client.admin.log_dirs import LogDirsAdmin

    found = ask(
        connection.settings(),
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
        empty="Nothing lies there.",
    )


@command.command("move", examples=["penstock log-dirs move orders:0@1=/data/2"])
def move(
    moves: Annotated[
        list[str],
        Argument(
            metavar="REPLICA=DIRECTORY...",
            help="Replicas as TOPIC:PARTITION@BROKER, and where each is to lie.",
        ),
    ],
    *,
    connection: Connection,
    output: Output,
) -> None:
    """Begin to move replicas to other log directories of their brokers."""
    from penstock.cli.asking import ask
    from penstock.client.admin.log_dirs import LogDirsAdmin

    wanted = dict(map(_read_move, moves))
    ask(connection.settings(), LogDirsAdmin, lambda admin: admin.alter_replica_log_dirs(wanted))
    output.table(
        ["topic", "partition", "broker", "directory"],
        [(*replica, directory) for replica, directory in sorted(wanted.items())],
    )


def _read_move(text: str) -> tuple[Replica, str]:
    from penstock.cli.asking import read_partition
    from penstock.cli.failures import Misuse
    from penstock.client.admin.log_dirs import Replica

    replica, separator, directory = text.partition("=")
    partition, at, broker = replica.rpartition("@")
    if not (separator and at and broker.isdecimal() and directory):
        raise Misuse(f"{text}: must be topic:partition@broker=directory, such as orders:0@1=/data/2")
    return Replica(*read_partition(partition), int(broker)), directory
