"""Kill a broker with SIGKILL under load, repeatedly, and check that it keeps every promise.

Idempotent and raw producers with acks=all write to a topic with flush.messages=1. At random moments the process is
killed, sometimes again while it recovers. In between, the unacknowledged ends of its files are damaged, as in a
power cut. Then it restarts on the same data. After the last round every partition is read and checked.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from harness import wire
from harness.admin import create_topics
from harness.brokers import Broker
from harness.waiting import wait_until
from torture.check import faults, read_partition
from torture.damage import damage_tail, recovery_point
from torture.writers import IdempotentWriter, Ledger, RawWriter

TOPIC = "torture"
RAW_PARTITIONS = (0, 1, 2)
IDEMPOTENT_PARTITIONS = (3, 4, 5)
PROGRESS_SECONDS = 60.0
SETTINGS = {"auto.create.topics.enable": "false"}


@dataclass(frozen=True, slots=True)
class Report:
    rounds: int
    kills: int
    acknowledged: int
    found: int
    faults: list[str]


def torture(
    broker: Broker,
    *,
    rounds: int,
    seed: int,
    is_damaging: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> Report:
    """Run everything on a broker that is not started yet, and leave it stopped."""
    rng = random.Random(seed)
    broker.start()
    create_topics(
        broker.bootstrap,
        TOPIC,
        partitions=len(RAW_PARTITIONS + IDEMPOTENT_PARTITIONS),
        config={"flush.messages": "1", "segment.bytes": str(1 << 20)},
    )
    raw = [RawWriter(broker.port, TOPIC, partition, rng.getrandbits(32)) for partition in RAW_PARTITIONS]
    idempotent = IdempotentWriter(broker.port, TOPIC, list(IDEMPOTENT_PARTITIONS), rng.getrandbits(32))
    ledgers = [writer.ledger for writer in raw] + list(idempotent.ledgers.values())
    for writer in (*raw, idempotent):
        writer.start()

    kills, broken = 0, []
    for number in range(1, rounds + 1):
        _wait_for_progress(ledgers)
        load_seconds = rng.uniform(0.02, 0.8)
        time.sleep(load_seconds)
        broker.kill()
        kills += 1
        done = _damage(broker, raw, rng) if is_damaging else "none"
        while rng.random() < 0.15:  # again, while it recovers
            broker.launch()
            time.sleep(rng.uniform(0.0, 0.3))
            broker.kill()
            kills += 1
        started = time.monotonic()
        broker.start()
        recovery_seconds = time.monotonic() - started
        broken = _end_offset_faults(broker, ledgers)
        say(
            f"round {number:3}/{rounds}: killed after {load_seconds:.2f} s, back in {recovery_seconds:.2f} s, "
            f"{sum(len(ledger.acknowledged) for ledger in ledgers):,} acknowledged; damage: {done}"
        )
        if broken:
            break

    if not broken:
        _wait_for_progress(ledgers)
    for writer in (*raw, idempotent):
        writer.stop()
    checked, found = _check(broker, ledgers)
    broker.restart()
    checked_again, found_again = _check(broker, ledgers)
    if found_again != found:
        checked_again.append(f"{found:,} records before a clean restart, {found_again:,} after it")
    broker.stop()
    acknowledged = sum(len(ledger.acknowledged) for ledger in ledgers)
    return Report(number, kills, acknowledged, found, list(dict.fromkeys(broken + checked + checked_again)))


def _wait_for_progress(ledgers: list[Ledger]) -> None:
    """Wait until every partition has acknowledged a record since the last start, so that the kill comes under load."""
    before = {ledger.partition: len(ledger.acknowledged) for ledger in ledgers}
    waiting = list(ledgers)
    deadline = time.monotonic() + PROGRESS_SECONDS
    while waiting:
        waiting = [ledger for ledger in waiting if len(ledger.acknowledged) <= before[ledger.partition]]
        stuck = [ledger.partition for ledger in waiting]
        assert time.monotonic() < deadline, (
            f"no acknowledgement for {PROGRESS_SECONDS:.0f} s in partitions {stuck}"
        )
        time.sleep(0.005)


def _damage(broker: Broker, raw: list[RawWriter], rng: random.Random) -> str:
    """Damage the end of one or two logs. Only raw writers know at once what was acknowledged, so only theirs are
    cut."""
    done = []
    for writer in rng.sample(raw, rng.randint(0, 2)):
        writer.settle()
        folder = next(
            directory / f"{TOPIC}-{writer.ledger.partition}"
            for directory in broker.log_directories
            if (directory / f"{TOPIC}-{writer.ledger.partition}").exists()
        )
        promised = max(writer.ledger.acknowledged_end, recovery_point(folder.parent, folder.name))
        done.append(damage_tail(folder, rng, promised_end=promised))
    if rng.random() < 0.3:
        partition = rng.choice(IDEMPOTENT_PARTITIONS)
        done.append(damage_tail(broker.log_directories[0] / f"{TOPIC}-{partition}", rng, promised_end=None))
    if rng.random() < 0.2:
        metadata = broker.log_directories[0] / "__cluster_metadata-0"
        done.append(f"metadata {damage_tail(metadata, rng, promised_end=None)}")
    return "; ".join(done) or "none"


def _end_offset_faults(broker: Broker, ledgers: list[Ledger]) -> list[str]:
    """A quick check after each start, so that a loss is found in the round that caused it."""
    broken = []
    with wire.WireConnection(broker.port) as connection:
        for ledger in ledgers:
            promised = ledger.acknowledged_end
            wait_until(
                partial(_is_led, connection, ledger.partition),
                f"partition {ledger.partition} has a leader after a start",
                seconds=PROGRESS_SECONDS,
            )
            end = wire.end_offset(connection, TOPIC, ledger.partition)
            if end < promised:
                broken.append(
                    f"partition {ledger.partition}: ends at {end}, but {promised} were acknowledged"
                )
    return broken


def _is_led(connection: wire.WireConnection, partition: int) -> bool:
    return wire.end_offset(connection, TOPIC, partition) >= 0


def _check(broker: Broker, ledgers: list[Ledger]) -> tuple[list[str], int]:
    broken, count = [], 0
    for ledger in ledgers:
        found = read_partition(broker.port, TOPIC, ledger.partition)
        count += len(found)
        broken += faults(found, ledger, is_complete=ledger.partition in IDEMPOTENT_PARTITIONS)
    return broken, count
