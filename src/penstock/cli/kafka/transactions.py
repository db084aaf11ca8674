"""`kafka-transactions.sh {list,describe,describe-producers,abort,find-hanging,forceTerminateTransaction}`."""

from __future__ import annotations

import time

from penstock.cli.failures import Refusal
from penstock.cli.kafka.tool import BOOTSTRAP_SERVER, COMMAND_CONFIG, Options, Tool, flag

TOOL = Tool(
    "usage: kafka-transactions.sh [-h] [-v] [--command-config FILE] --bootstrap-server host:port COMMAND ...",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    flag("transactional-id", "The transactional id.", "TRANSACTIONAL_ID", ("--transactionalId",)),
    flag("topic", "The topic.", "TOPIC"),
    flag("partition", "The partition id.", "PARTITION"),
    flag("broker-id", "The broker to ask.", "BROKER_ID"),
    flag("start-offset", "Start offset of the transaction to abort.", "START_OFFSET"),
    flag("producer-id", "Producer id of the transaction to abort.", "PRODUCER_ID"),
    flag("producer-epoch", "Producer epoch of the transaction to abort.", "PRODUCER_EPOCH"),
    flag("coordinator-epoch", "Coordinator epoch of the transaction to abort.", "COORDINATOR_EPOCH"),
    flag(
        "max-transaction-timeout",
        "Minutes after which an open transaction may be hanging.",
        "MINUTES",
        default="15",
    ),
    flag("duration-filter", "Only transactions open for longer, in milliseconds.", "DURATION_FILTER"),
    flag("transactional-id-pattern", "Only matching transactional ids.", "TRANSACTIONAL_ID_PATTERN"),
    program="kafka-transactions.sh",
    commands={
        "list": (),
        "describe": ("transactional-id",),
        "describe-producers": ("topic", "partition"),
        "find-hanging": (),
        "abort": ("topic", "partition"),
        "forceTerminateTransaction": ("transactional-id",),
    },
)


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import fail

    work = {
        "list": _list,
        "describe": _describe,
        "describe-producers": _producers,
        "find-hanging": _find_hanging,
        "abort": _abort,
        "forceTerminateTransaction": _terminate,
    }
    try:
        work[options.words[0]](options)
    except Refusal as refused:
        return fail(str(refused))
    return 0


def _list(options: Options) -> None:
    from penstock.cli.kafka.admin import print_table, with_admin
    from penstock.client.admin.transactions import TransactionsAdmin

    listed = with_admin(
        options,
        TransactionsAdmin,
        lambda admin: admin.list_transactions(
            longer_than_ms=options.integer("duration-filter"), pattern=options.get("transactional-id-pattern")
        ),
    )
    print_table(
        ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"],
        [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in listed],
    )


def _describe(options: Options) -> None:
    from penstock.cli.kafka.admin import message_of, print_table, with_admin
    from penstock.client.admin.transactions import TransactionsAdmin
    from penstock.client.errors import BrokerError

    name = options.text("transactional-id")
    try:
        found = with_admin(options, TransactionsAdmin, lambda admin: admin.describe_transaction(name))
    except BrokerError as error:
        raise Refusal(
            f"Failed to describe transaction state of transactional-id `{name}`: {message_of(error)}."
            " Enable debug logging for additional detail."
        ) from None
    lasts = "None" if found.started_ms is None else max(0, round(time.time() * 1000) - found.started_ms)
    print_table(
        [
            "CoordinatorId",
            "TransactionalId",
            "ProducerId",
            "ProducerEpoch",
            "TransactionState",
            "TransactionTimeoutMs",
            "CurrentTransactionStartTimeMs",
            "TransactionDurationMs",
            "TopicPartitions",
        ],
        [
            (
                found.coordinator,
                found.transactional_id,
                found.producer_id,
                found.producer_epoch,
                found.state,
                found.timeout_ms,
                "None" if found.started_ms is None else found.started_ms,
                lasts,
                ",".join(map(str, sorted(found.partitions))),
            )
        ],
    )


def _producers(options: Options) -> None:
    from penstock.cli.kafka.admin import print_table, with_admin
    from penstock.client.admin.transactions import TransactionsAdmin
    from penstock.client.cluster import TopicPartition

    where = TopicPartition(options.text("topic"), options.number("partition"))
    found = with_admin(
        options,
        TransactionsAdmin,
        lambda admin: admin.describe_producers([where], broker=options.integer("broker-id")),
    )
    print_table(
        [
            "ProducerId",
            "ProducerEpoch",
            "LatestCoordinatorEpoch",
            "LastSequence",
            "LastTimestamp",
            "CurrentTransactionStartOffset",
        ],
        [
            (
                each.producer_id,
                each.producer_epoch,
                -1 if each.coordinator_epoch is None else each.coordinator_epoch,
                -1 if each.last_sequence is None else each.last_sequence,
                -1 if each.last_timestamp_ms is None else each.last_timestamp_ms,
                "None" if each.transaction_start_offset is None else each.transaction_start_offset,
            )
            for each in found[where]
        ],
    )


def _find_hanging(options: Options) -> None:
    from penstock.cli.hanging_transactions import HangingAdmin, find_hanging
    from penstock.cli.kafka.admin import print_table, with_admin

    if not options.has("topic") and not options.has("broker-id"):
        raise Refusal(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if options.has("partition") and not options.has("topic"):
        raise Refusal("The --partition argument requires --topic to be provided")
    now_ms = round(time.time() * 1000)
    found = with_admin(
        options,
        HangingAdmin,
        lambda admin: find_hanging(
            admin,
            topic=options.get("topic"),
            partition=options.integer("partition"),
            broker=options.integer("broker-id"),
            older_than_ms=options.number("max-transaction-timeout") * 60_000,
            now_ms=now_ms,
        ),
    )
    print_table(
        [
            "Topic",
            "Partition",
            "ProducerId",
            "ProducerEpoch",
            "CoordinatorEpoch",
            "StartOffset",
            "LastTimestamp",
            "Duration(min)",
        ],
        [
            (
                *each.partition,
                each.producer.producer_id,
                each.producer.producer_epoch,
                -1 if each.producer.coordinator_epoch is None else each.producer.coordinator_epoch,
                each.producer.transaction_start_offset,
                each.producer.last_timestamp_ms,
                (now_ms - (each.producer.last_timestamp_ms or now_ms)) // 60_000,
            )
            for each in found
        ],
    )


def _abort(options: Options) -> None:
    from penstock.cli.commands.transactions import abort_at
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.transactions import TransactionsAdmin
    from penstock.client.cluster import TopicPartition

    where = TopicPartition(options.text("topic"), options.number("partition"))
    if options.has("start-offset"):
        offset = options.number("start-offset")
        with_admin(options, TransactionsAdmin, lambda admin: abort_at(admin, where, offset))
        return
    if not options.has("producer-id"):
        raise Refusal(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    for name in ("producer-epoch", "coordinator-epoch"):
        if not options.has(name):
            raise Refusal(f"Missing required argument --{name}")
    with_admin(
        options,
        TransactionsAdmin,
        lambda admin: admin.abort_transaction(
            where,
            producer_id=options.number("producer-id"),
            producer_epoch=options.number("producer-epoch"),
            coordinator_epoch=max(0, options.number("coordinator-epoch")),
        ),
    )


def _terminate(options: Options) -> None:
    from penstock.cli.kafka.admin import with_admin
    from penstock.client.admin.transactions import TransactionsAdmin

    name = options.text("transactional-id")
    with_admin(options, TransactionsAdmin, lambda admin: admin.terminate_transaction(name))
