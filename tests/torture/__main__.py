"""`make torture`: kill -9 under load, ROUNDS times each, for records, groups, transactions, clusters, Kafka Streams and
Spark.

Prints the seed. The same seed kills at the same moments. `partitions` cuts nodes off from each other: it gives every
node a network namespace of its own, which needs root.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compat.conftest import SHORT_BROKER_SESSION
from compat.transactions import transformers
from harness.brokers import Broker, KafkaBroker, PenstockBroker
from harness.clusters import ProcessCluster
from harness.kafka_cluster import KafkaCluster
from harness.network import SeparateHosts, can_have_own_network, in_own_network, run_in_own_network
from harness.penstock_cluster import PenstockCluster
from torture.cluster import KILL, PARTITION, PAUSE, STOP, ClusterAsBroker, torture_cluster
from torture.cluster import SETTINGS as CLUSTER_SETTINGS
from torture.groups import SETTINGS as GROUP_SETTINGS
from torture.groups import torture_groups
from torture.run import SETTINGS, torture
from torture.spark import SETTINGS as SPARK_SETTINGS
from torture.spark import torture_spark
from torture.spark_kinds import KINDS as SPARK_KINDS
from torture.streams import STREAMS_SETTINGS, torture_streams
from torture.transactions import SETTINGS as TRANSACTION_SETTINGS
from torture.transactions import torture_transactions

# Both group protocols of the two most common clients.
CLIENTS = ["confluent", "confluent-consumer", "java", "java-consumer"]


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that child processes are ended too
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--broker", choices=("penstock", "kafka"), default="penstock")
    parser.add_argument("--of", choices=(*PARTS, "all"), default="all")
    names = [client.name for client in transformers.IN_CRASHES]
    parser.add_argument(
        "--clients", nargs="*", choices=names, default=CLIENTS, help="clients of the transactional pipelines"
    )
    parser.add_argument(
        "--queries", nargs="*", choices=SPARK_KINDS, default=list(SPARK_KINDS), help="Spark queries to run"
    )
    parser.add_argument("--minutes", type=float, default=None, help="time limit for each Spark query")
    parser.add_argument("--no-damage", action="store_true", help="only kill, without damaging files")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().getrandbits(32)
    wanted = list(PARTS) if arguments.of == "all" else [arguments.of]
    if "partitions" in wanted and not can_have_own_network():
        if arguments.of == "partitions":
            parser.error("network partitions need root, to create network namespaces")
        _say("partitions: left out, because they need root")
        wanted = [name for name in wanted if name != "partitions"]
    for name in wanted:
        folder = Path(tempfile.mkdtemp(prefix=f"torture-{name}-"))
        print(f"{name}: seed {seed}, data in {folder}", flush=True)
        faults = PARTS[name](arguments, folder, seed)
        if faults:
            print("\n".join(["FAILED", *faults]))
            print(
                f"repeat with: make torture OF={name} {_repeat_options(arguments)} SEED={seed}; data: {folder}"
            )
            return 1
        shutil.rmtree(folder)
    return 0


def _repeat_options(arguments: argparse.Namespace) -> str:
    options = [f"ROUNDS={arguments.rounds}"]
    if arguments.minutes is not None:
        options.append(f"MINUTES={arguments.minutes:g}")
    if arguments.queries != list(SPARK_KINDS):
        options.append(f"QUERIES='{' '.join(arguments.queries)}'")
    return " ".join(options)


def _records(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    with _timed_broker(arguments, folder, SETTINGS) as (broker, seconds):
        report = torture(
            broker, rounds=arguments.rounds, seed=seed, is_damaging=not arguments.no_damage, say=_say
        )
    _say(
        f"{report.kills} kills in {report.rounds} rounds and {seconds():.0f} s: "
        f"{report.acknowledged:,} records acknowledged, {report.found:,} found"
    )
    return _conclude(report.faults, "no acknowledged record is missing, duplicate or out of order")


def _groups(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    with _timed_broker(arguments, folder, GROUP_SETTINGS) as (broker, seconds):
        report = torture_groups(
            broker, rounds=arguments.rounds, seed=seed, is_damaging=not arguments.no_damage, say=_say
        )
    _say(
        f"{report.kills} kills in {report.rounds} rounds and {seconds():.0f} s: "
        f"{report.commits:,} commits acknowledged"
    )
    return _conclude(
        report.faults, "no committed offset went back, and every record was delivered to its groups"
    )


def _transactions(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    clients = [client for client in transformers.IN_CRASHES if client.name in arguments.clients]
    with _timed_broker(arguments, folder, TRANSACTION_SETTINGS) as (broker, seconds):
        report = torture_transactions(
            broker,
            rounds=arguments.rounds,
            seed=seed,
            clients=clients,
            is_damaging=not arguments.no_damage,
            say=_say,
        )
    _say(
        f"{report.kills} kills of the broker and {report.client_kills} of clients in {report.rounds} rounds and "
        f"{seconds():.0f} s: {report.ended:,} transactions ended, {report.transformed:,} records transformed"
    )
    return _conclude(
        report.faults, "every transaction is complete or absent, and outputs match inputs one to one"
    )


def _cluster(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    kind = PenstockCluster if arguments.broker == "penstock" else KafkaCluster
    return _torture_cluster(arguments, kind(folder, settings=CLUSTER_SETTINGS), seed, (KILL, PAUSE, STOP))


def _partitions(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    if not in_own_network():
        command = [sys.executable, "-m", "torture", *sys.argv[1:], "--of", "partitions", "--seed", str(seed)]
        status = run_in_own_network(command)
        return [] if status == 0 else [f"exit status {status}"]
    return _torture_cluster(arguments, SeparateHosts(folder, settings=CLUSTER_SETTINGS), seed, (PARTITION,))


def _torture_cluster(
    arguments: argparse.Namespace, cluster: ProcessCluster[Any], seed: int, actions: Sequence[str]
) -> list[str]:
    clients = [client for client in transformers.IN_CRASHES if client.name in arguments.clients]
    started = time.monotonic()
    try:
        report = torture_cluster(
            cluster, rounds=arguments.rounds, seed=seed, clients=clients, actions=actions, say=_say
        )
    finally:
        cluster.close()
    _say(
        f"{report.rounds} rounds in {time.monotonic() - started:.0f} s: {report.acknowledged:,} records acknowledged, "
        f"{report.transformed:,} transformed, at most {report.longest_gap_s:.1f} s without an acknowledgement"
    )
    if report.restarted:
        _say(f"restarted, because they hung: {', '.join(report.restarted)}")
    return _conclude(
        report.faults, "no acknowledged record is missing, duplicate or out of order; outputs match inputs"
    )


def _streams(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    with _timed_broker(arguments, folder, STREAMS_SETTINGS) as (broker, seconds):
        report = torture_streams(broker, folder, rounds=arguments.rounds, seed=seed, say=_say)
    _say(
        f"{report.kills} kills of the broker and {report.instance_kills} of instances in {report.rounds} rounds "
        f"and {seconds():.0f} s: {report.counted:,} words counted"
    )
    return _conclude(report.faults, "every word was counted once")


def _spark(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    faults: list[str] = []
    for name in arguments.queries:
        _say(f"{name}: {SPARK_KINDS[name].meaning}")
        with _timed_broker(arguments, folder / name / "broker", SPARK_SETTINGS) as (broker, _):
            report = torture_spark(
                broker,
                folder / name,
                kinds=[name],
                rounds=arguments.rounds,
                seed=seed,
                seconds=None if arguments.minutes is None else 60 * arguments.minutes,
                say=_say,
            )
        _say(f"{name}: {report}")
        faults += [f"{name}: {fault}" for fault in report.faults]
    return _conclude(faults, "every input has its output, once and in order, and no transaction is open")


def _spark_cluster(arguments: argparse.Namespace, folder: Path, seed: int) -> list[str]:
    cluster = PenstockCluster(folder / "cluster", settings={**CLUSTER_SETTINGS, **SPARK_SETTINGS})
    broker: Any = ClusterAsBroker(cluster)
    try:
        report = torture_spark(
            broker,
            folder / "spark",
            kinds=["stateless"],
            rounds=arguments.rounds,
            seed=seed,
            seconds=None if arguments.minutes is None else 60 * arguments.minutes,
            say=_say,
        )
    finally:
        cluster.close()
    _say(str(report))
    return _conclude(
        report.faults, "every input has its output, once and in order, and no transaction is open"
    )


def _conclude(faults: list[str], success: str) -> list[str]:
    if not faults:
        _say(success)
    return faults


def _say(line: str) -> None:
    print(line, flush=True)


@contextmanager
def _timed_broker(
    arguments: argparse.Namespace, folder: Path, settings: dict[str, str]
) -> Iterator[tuple[Broker, Callable[[], float]]]:
    """A broker that is not started yet, and a clock of the seconds since."""
    started = time.monotonic()
    broker: Broker = (
        PenstockBroker(folder, settings=settings)
        if arguments.broker == "penstock"
        else KafkaBroker(folder, settings={**settings, **SHORT_BROKER_SESSION})
    )
    try:
        yield broker, lambda: time.monotonic() - started
    finally:
        broker.close()


PARTS = {
    "records": _records,
    "groups": _groups,
    "transactions": _transactions,
    "cluster": _cluster,
    "partitions": _partitions,
    "streams": _streams,
    "spark": _spark,
    "spark-cluster": _spark_cluster,
}

if __name__ == "__main__":
    sys.exit(main())
