"""`kafka-transactions.sh {list,describe,describe-producers,abort,find-hanging,forceTerminateTransaction}`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from penstock.cli.failures import Refusal
from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, BadFlags, Flag, Flags, Said, run_tool

FLAGS = Flags(
    "usage: kafka-transactions.sh [-h] [-v] [--command-config FILE] --bootstrap-server host:port COMMAND ...",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag("transactional-id", "The transactional id.", "TRANSACTIONAL_ID", ("--transactionalId",)),
    Flag("topic", "The topic.", "TOPIC"),
    Flag("partition", "The number of the partition.", "PARTITION"),
    Flag("broker-id", "The broker whose replica is asked.", "BROKER_ID"),
    Flag("start-offset", "Where the transaction to abort begins.", "START_OFFSET"),
    Flag("producer-id", "The producer of the transaction to abort.", "PRODUCER_ID"),
    Flag("producer-epoch", "Its epoch.", "PRODUCER_EPOCH"),
    Flag("coordinator-epoch", "The epoch of its coordinator.", "COORDINATOR_EPOCH"),
    Flag("max-transaction-timeout", "In minutes: what is open for longer may hang.", "MINUTES", default="15"),
    Flag("duration-filter", "Only what is open for longer, in milliseconds.", "DURATION_FILTER"),
    Flag("transactional-id-pattern", "Only ids that match.", "TRANSACTIONAL_ID_PATTERN"),
    words="command",
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    from penstock.cli.kafka.tools import fail

    work = {
        "list": _list,
        "describe": _describe,
        "describe-producers": _producers,
        "find-hanging": _find_hanging,
        "abort": _abort,
        "forceTerminateTransaction": _terminate,
    }
    if not said.words:
        raise BadFlags("kafka-transactions.sh: error: too few arguments")
    if said.words[0] not in work:
        raise BadFlags(
            f"kafka-transactions.sh: error: invalid choice: '{said.words[0]}' (choose from {', '.join(work)})"
        )
    try:
        work[said.words[0]](said)
    except Refusal as refused:
        return fail(str(refused))
    return 0


def _list(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster, print_table
    from penstock.client.admin.transactions import TransactionsAdmin

    listed = ask_cluster(
        said,
        TransactionsAdmin,
        lambda admin: admin.list_transactions(
            longer_than_ms=said.integer("duration-filter"), pattern=said.get("transactional-id-pattern")
        ),
    )
    print_table(
        ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"],
        [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in listed],
    )


def _describe(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster, message_of, print_table, require
    from penstock.client.admin.transactions import TransactionsAdmin
    from penstock.client.errors import BrokerError

    require(said, "transactional-id")
    name = said.text("transactional-id")
    try:
        found = ask_cluster(said, TransactionsAdmin, lambda admin: admin.describe_transaction(name))
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


def _producers(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster, print_table, require
    from penstock.client.admin.transactions import TransactionsAdmin
    from penstock.client.cluster import TopicPartition

    require(said, "topic", "partition")
    where = TopicPartition(said.text("topic"), said.number("partition"))
    found = ask_cluster(
        said,
        TransactionsAdmin,
        lambda admin: admin.describe_producers([where], broker=said.integer("broker-id")),
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


def _find_hanging(said: Said) -> None:
    from penstock.cli.hanging import HangingAdmin, find_hanging
    from penstock.cli.kafka.tools import ask_cluster, print_table

    if not said.has("topic") and not said.has("broker-id"):
        raise Refusal(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if said.has("partition") and not said.has("topic"):
        raise Refusal("The --partition argument requires --topic to be provided")
    now_ms = round(time.time() * 1000)
    found = ask_cluster(
        said,
        HangingAdmin,
        lambda admin: find_hanging(
            admin,
            topic=said.get("topic"),
            partition=said.integer("partition"),
            broker=said.integer("broker-id"),
            older_than_ms=said.number("max-transaction-timeout") * 60_000,
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


def _abort(said: Said) -> None:
    from penstock.cli.commands.transactions import abort_at
    from penstock.cli.kafka.tools import ask_cluster, require
    from penstock.client.admin.transactions import TransactionsAdmin
    from penstock.client.cluster import TopicPartition

    require(said, "topic", "partition")
    where = TopicPartition(said.text("topic"), said.number("partition"))
    if said.has("start-offset"):
        offset = said.number("start-offset")
        ask_cluster(said, TransactionsAdmin, lambda admin: abort_at(admin, where, offset))
        return
    if not said.has("producer-id"):
        raise Refusal(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    for flag in ("producer-epoch", "coordinator-epoch"):
        if not said.has(flag):
            raise Refusal(f"Missing required argument --{flag}")
    ask_cluster(
        said,
        TransactionsAdmin,
        lambda admin: admin.abort_transaction(
            where,
            producer_id=said.number("producer-id"),
            producer_epoch=said.number("producer-epoch"),
            coordinator_epoch=max(0, said.number("coordinator-epoch")),
        ),
    )


def _terminate(said: Said) -> None:
    from penstock.cli.kafka.tools import ask_cluster, require
    from penstock.client.admin.transactions import TransactionsAdmin

    require(said, "transactional-id")
    name = said.text("transactional-id")
    ask_cluster(said, TransactionsAdmin, lambda admin: admin.terminate_transaction(name))
