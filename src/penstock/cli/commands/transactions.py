"""`penstock transactions`: transactions and their producers; aborting those that hang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Column, Output, show_duration, show_time

if TYPE_CHECKING:
    from penstock.client.admin.transactions import TransactionsAdmin
    from penstock.client.cluster import TopicPartition

command = Group(help="List and describe transactions, and abort those that hang.", kafka="kafka-transactions")

PARTITION = argument(metavar="TOPIC:PARTITION", help="A partition, such as orders:0.")


@command.command(
    "list", examples=["penstock transactions list", "penstock transactions list --state ongoing --json"]
)
def list_transactions(
    *,
    connection: Connection,
    output: Output,
    states: Annotated[
        tuple[str, ...],
        option(
            "--state", help="Only transactions in this state: Ongoing, CompleteCommit ... May be repeated."
        ),
    ] = (),
    longer_than: Annotated[
        int | None,
        option("--longer-than", metavar="MS", help="Only transactions that are open for longer.", minimum=0),
    ] = None,
    pattern: Annotated[
        str | None, option("--pattern", metavar="REGEX", help="Only transactional ids that match (RE2).")
    ] = None,
) -> None:
    """List transactions."""
    from penstock.cli.failures import Misuse
    from penstock.client.admin.transactions import TransactionsAdmin, TransactionState

    spelled = {state.lower(): state.value for state in TransactionState}
    if unknown := [state for state in states if state.lower() not in spelled]:
        raise Misuse(f"--state {unknown[0]}: must be one of {', '.join(spelled.values())}")
    listed = connection.with_admin(
        TransactionsAdmin,
        lambda admin: admin.list_transactions(
            states=[spelled.get(state.lower(), state) for state in states],
            longer_than_ms=longer_than,
            pattern=pattern,
        ),
    )
    output.table(
        [
            "transactional_id",
            "state",
            "producer_id",
            "coordinator",
        ],
        [(each.transactional_id, each.state, each.producer_id, each.coordinator) for each in listed],
        empty="No transaction matches." if states or longer_than or pattern else "There are no transactions.",
    )


@command.command("describe", examples=["penstock transactions describe payments-1"])
def describe(
    ids: Annotated[list[str], argument(metavar="TRANSACTIONAL_ID...", help="Transactional ids.")],
    *,
    connection: Connection,
    output: Output,
) -> None:
    """Show the state of transactions and the partitions that they write to."""
    from penstock.client.admin.transactions import TransactionsAdmin

    described = connection.with_admin(TransactionsAdmin, lambda admin: admin.describe_transactions(ids))
    output.table(
        [
            "transactional_id",
            "state",
            "producer_id",
            Column("producer_epoch", "epoch"),
            Column("timeout_ms", "timeout", show_duration),
            Column("started_ms", "started", show_time),
            "coordinator",
            "partitions",
        ],
        [
            (
                each.transactional_id,
                each.state,
                each.producer_id,
                each.producer_epoch,
                each.timeout_ms,
                each.started_ms,
                each.coordinator,
                [str(partition) for partition in sorted(each.partitions)],
            )
            for each in described.values()
        ],
    )


@command.command("producers", examples=["penstock transactions producers orders:0"])
def producers(
    partitions: Annotated[
        list[str], argument(metavar="TOPIC:PARTITION...", help="Partitions, such as orders:0.")
    ],
    *,
    connection: Connection,
    output: Output,
    broker: Annotated[int | None, option("--broker", help="Ask this replica instead of the leader.")] = None,
) -> None:
    """Show the producers of partitions, and where their open transactions begin."""
    from penstock.cli.values import read_partition
    from penstock.client.admin.transactions import TransactionsAdmin

    wanted = [read_partition(text) for text in partitions]
    found = connection.with_admin(
        TransactionsAdmin,
        lambda admin: admin.describe_producers(wanted, broker=broker),
    )
    output.table(
        [
            "topic",
            "partition",
            "producer_id",
            Column("producer_epoch", "epoch"),
            "last_sequence",
            Column("last_timestamp_ms", "last record", show_time),
            Column("transaction_start_offset", "open since offset"),
        ],
        [
            (
                *partition,
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp_ms,
                each.transaction_start_offset,
            )
            for partition, states in sorted(found.items())
            for each in states
        ],
        empty="No producer writes to these partitions.",
    )


@command.command("find-hanging", examples=["penstock transactions find-hanging --topic orders"])
def find_hanging(
    *,
    connection: Connection,
    output: Output,
    topic: Annotated[str | None, option("--topic", help="Only on this topic.", complete="topic")] = None,
    broker: Annotated[int | None, option("--broker", help="Only on this broker.")] = None,
    minutes: Annotated[
        int,
        option("--max-transaction-timeout", metavar="MINUTES", help="Open for longer than this.", minimum=0),
    ] = 15,
) -> None:
    """Find transactions that no coordinator will end. They block consumers with read_committed."""
    import time

    from penstock.cli.hanging_transactions import HangingAdmin
    from penstock.cli.hanging_transactions import find_hanging as find

    found = connection.with_admin(
        HangingAdmin,
        lambda admin: find(
            admin,
            topic=topic,
            partition=None,
            broker=broker,
            older_than_ms=minutes * 60_000,
            now_ms=round(time.time() * 1000),
        ),
    )
    output.table(
        [
            "topic",
            "partition",
            "producer_id",
            Column("producer_epoch", "epoch"),
            Column("start_offset", "open since offset"),
            Column("last_timestamp_ms", "last record", show_time),
        ],
        [
            (
                *each.partition,
                each.producer.producer_id,
                each.producer.producer_epoch,
                each.producer.transaction_start_offset,
                each.producer.last_timestamp_ms,
            )
            for each in found
        ],
        empty="No hanging transactions.",
    )


@command.command("abort", examples=["penstock transactions abort orders:0 --start-offset 1500"])
def abort(
    partition: Annotated[str, PARTITION],
    *,
    connection: Connection,
    output: Output,
    start_offset: Annotated[
        int, option("--start-offset", help="Where the transaction begins; find-hanging shows it.", minimum=0)
    ],
) -> None:
    """Abort a hanging transaction on one partition. If its coordinator still knows it, use terminate."""
    from penstock.cli.values import read_partition
    from penstock.client.admin.transactions import TransactionsAdmin

    where = read_partition(partition)
    connection.with_admin(TransactionsAdmin, lambda admin: abort_at(admin, where, start_offset))
    output.result(
        f"aborted the transaction that began at offset {start_offset} of {where}",
        {"topic": where.topic, "partition": where.partition, "start_offset": start_offset},
    )


async def abort_at(admin: TransactionsAdmin, partition: TopicPartition, start_offset: int) -> None:
    """Abort the transaction that is open since an offset, with the producer id and epoch of the partition."""
    from penstock.cli.failures import Refusal

    (states,) = (await admin.describe_producers([partition])).values()
    found = next((each for each in states if each.transaction_start_offset == start_offset), None)
    if found is None:
        raise Refusal(
            f"Could not find any open transactions starting at offset {start_offset} on partition {partition}"
        )
    await admin.abort_transaction(
        partition,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        # A producer without any completed transaction has no coordinator epoch yet.
        coordinator_epoch=0 if found.coordinator_epoch is None else max(found.coordinator_epoch, 0),
    )


@command.command("terminate", examples=["penstock transactions terminate payments-1"])
def terminate(
    transactional_id: Annotated[str, argument(help="A transactional id.")],
    *,
    connection: Connection,
    output: Output,
) -> None:
    """Abort the open transaction of a transactional id, and fence its producer."""
    from penstock.client.admin.transactions import TransactionsAdmin

    async def work(admin: TransactionsAdmin) -> None:
        await admin.describe_transaction(transactional_id)  # fails if it does not exist
        await admin.terminate_transaction(transactional_id)

    connection.with_admin(TransactionsAdmin, work)
    output.result(f"{transactional_id} has no open transaction now", {"transactional_id": transactional_id})
