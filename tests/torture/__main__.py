"""`make torture`: kill -9 under load, ROUNDS times each: of records, groups, transactions, Kafka Streams and Spark.

Prints the seed; the same seed kills at the same moments.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from compat.transactions import transformers
from harness.brokers import Broker, KafkaBroker, PenstockBroker
from torture.groups import SETTINGS as GROUP_SETTINGS
from torture.groups import torture_groups
from torture.run import SETTINGS, torture
from torture.spark import SETTINGS as SPARK_SETTINGS
from torture.spark import torture_spark
from torture.spark_kinds import KINDS as SPARK_KINDS
from torture.streams import STREAMS_SETTINGS, torture_streams
from torture.transactions import SETTINGS as TRANSACTION_SETTINGS
from torture.transactions import torture_transactions

# Both kinds of groups of the two clients that most programs have.
CLIENTS = ["confluent", "confluent-consumer", "java", "java-consumer"]


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended too
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--broker", choices=("penstock", "kafka"), default="penstock")
    parser.add_argument("--of", choices=(*PARTS, "all"), default="all")
    names = [client.name for client in transformers.IN_CRASHES]
    parser.add_argument(
        "--clients", nargs="*", choices=names, default=CLIENTS, help="whose pipelines transactions have"
    )
    parser.add_argument(
        "--queries", nargs="*", choices=SPARK_KINDS, default=list(SPARK_KINDS), help="which ones of Spark"
    )
    parser.add_argument("--minutes", type=float, default=None, help="at most so long for each query of Spark")
    parser.add_argument("--no-damage", action="store_true", help="kill only, and leave the files as they are")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().getrandbits(32)
    wanted = PARTS if arguments.of == "all" else [arguments.of]
    for name in wanted:
        folder = Path(tempfile.mkdtemp(prefix=f"torture-{name}-"))
        print(f"{name}: seed {seed}, data in {folder}", flush=True)
        faults = PARTS[name](arguments, folder, seed)
        if faults:
            print("\n".join(["FAILED", *faults]))
            print(f"again: make torture OF={name} {_said(arguments)} SEED={seed}; the data stays in {folder}")
            return 1
        shutil.rmtree(folder)
    return 0


def _said(arguments: argparse.Namespace) -> str:
    said = [f"ROUNDS={arguments.rounds}"]
    if arguments.minutes is not None:
        said.append(f"MINUTES={arguments.minutes:g}")
    if arguments.queries != list(SPARK_KINDS):
        said.append(f"QUERIES='{' '.join(arguments.queries)}'")
    return " ".join(said)


def _records(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    started = time.monotonic()
    broker = _broker(arguments.broker, folder, SETTINGS)
    try:
        report = torture(
            broker, rounds=arguments.rounds, seed=seed, is_damaging=not arguments.no_damage, say=_say
        )
    finally:
        broker.close()
    print(
        f"{report.kills} kills in {report.rounds} rounds and {time.monotonic() - started:.0f} s: "
        f"{report.acknowledged:,} records acknowledged, {report.found:,} found"
    )
    if not report.faults:
        print("nothing acknowledged is missing, nothing is there twice, all is in order")
    return report.faults


def _groups(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    started = time.monotonic()
    broker = _broker(arguments.broker, folder, GROUP_SETTINGS)
    try:
        report = torture_groups(
            broker, rounds=arguments.rounds, seed=seed, is_damaging=not arguments.no_damage, say=_say
        )
    finally:
        broker.close()
    print(
        f"{report.kills} kills in {report.rounds} rounds and {time.monotonic() - started:.0f} s: "
        f"{report.commits:,} commits acknowledged"
    )
    if not report.faults:
        print("no committed offset went back, and every record was handed to its groups")
    return report.faults


def _transactions(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    started = time.monotonic()
    broker = _broker(arguments.broker, folder, TRANSACTION_SETTINGS)
    clients = [client for client in transformers.IN_CRASHES if client.name in arguments.clients]
    try:
        report = torture_transactions(
            broker,
            rounds=arguments.rounds,
            seed=seed,
            clients=clients,
            is_damaging=not arguments.no_damage,
            say=_say,
        )
    finally:
        broker.close()
    print(
        f"{report.kills} kills of the broker and {report.client_kills} of clients in {report.rounds} rounds and "
        f"{time.monotonic() - started:.0f} s: {report.ended:,} transactions ended, "
        f"{report.transformed:,} records transformed"
    )
    if not report.faults:
        print("every transaction is whole or not there, and outputs are their inputs, one to one")
    return report.faults


def _streams(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    started = time.monotonic()
    broker = _broker(arguments.broker, folder, STREAMS_SETTINGS)
    try:
        report = torture_streams(broker, folder, rounds=arguments.rounds, seed=seed, say=_say)
    finally:
        broker.close()
    print(
        f"{report.kills} kills of the broker and {report.instance_kills} of instances in {report.rounds} rounds "
        f"and {time.monotonic() - started:.0f} s: {report.counted:,} words counted"
    )
    if not report.faults:
        print("every word was counted once")
    return report.faults


def _spark(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    faults: list[str] = []
    for name in arguments.queries:
        _say(f"{name}: {SPARK_KINDS[name].meaning}")
        broker = _broker(arguments.broker, folder / name / "broker", SPARK_SETTINGS)
        try:
            report = torture_spark(
                broker,
                folder / name,
                kinds=[name],
                rounds=arguments.rounds,
                seed=seed,
                seconds=None if arguments.minutes is None else 60 * arguments.minutes,
                say=_say,
            )
        finally:
            broker.close()
        _say(f"{name}: {report}")
        faults += [f"{name}: {fault}" for fault in report.faults]
    if not faults:
        _say("what went in came out, each once and in order, and no transaction is open")
    return faults


def _say(line: str) -> None:
    print(line, flush=True)


def _broker(kind: str, folder: Path, settings: dict[str, str]) -> Broker:
    if kind == "penstock":
        return PenstockBroker(folder, settings=settings)
    # A KRaft broker that was killed is not let in again before its old session ends.
    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    return KafkaBroker(folder, settings={**settings, **session})


PARTS = {
    "records": _records,
    "groups": _groups,
    "transactions": _transactions,
    "streams": _streams,
    "spark": _spark,
}

if __name__ == "__main__":
    sys.exit(main())
