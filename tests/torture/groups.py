"""Kill a broker with SIGKILL during rebalances and commits, and check that no group loses committed offsets.

Some groups commit as fast as they can, others have members that join and leave. At random moments the process is
killed, sometimes again while it loads. In between, torn writes are appended to its offset logs. After each start
every group must find at least the acknowledged offsets, and none that was never committed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from harness.admin import create_topics
from harness.brokers import Broker
from harness.group_timeouts import SHORT_GROUP_TIMEOUTS
from harness.load import Load
from harness.requests import ask
from harness.waiting import wait_until
from harness.wire import WireConnection, end_offset
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from torture.committers import NOT_YET, Churn, Promises, RawCommitter
from torture.damage import damage_tail

TOPIC = "group-torture"
PARTITIONS = [0, 1, 2, 3]
RAW_COUNT = 4
FETCH_VERSION = 7
PROGRESS_SECONDS = 60.0
SESSION_MS = 1500
SETTINGS = {
    **SHORT_GROUP_TIMEOUTS,
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "offsets.topic.num.partitions": "4",
    "offsets.topic.segment.bytes": "1048576",
}
CLASSIC = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 200}
GROUPS: dict[str, dict[str, object]] = {
    "churn-range": {**CLASSIC, "partition.assignment.strategy": "range"},
    "churn-cooperative": {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "churn-consumer": {"group.protocol": "consumer"},
}


@dataclass(frozen=True, slots=True)
class GroupReport:
    rounds: int
    kills: int
    commits: int
    faults: list[str]


def torture_groups(
    broker: Broker,
    *,
    rounds: int,
    seed: int,
    is_damaging: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> GroupReport:
    """Run everything on a broker that is not started yet, and leave it stopped."""
    rng = random.Random(seed)
    broker.start()
    create_topics(broker.bootstrap, TOPIC, partitions=len(PARTITIONS))
    raw = [RawCommitter(broker.port, f"raw-{number}", TOPIC, PARTITIONS) for number in range(RAW_COUNT)]
    churns = [
        Churn(broker.bootstrap, group, TOPIC, settings=settings, seed=rng.getrandbits(32))
        for group, settings in GROUPS.items()
    ]
    all_promises = [actor.promises for actor in chain(raw, churns)]
    kills, faults = 0, []
    with Load(broker.bootstrap, TOPIC) as load:
        for actor in chain(raw, churns):
            actor.start()
        for number in range(1, rounds + 1):
            _wait_for_progress(all_promises)
            load_seconds = rng.uniform(0.02, 0.8)
            time.sleep(load_seconds)
            broker.kill()
            kills += 1
            for committer in raw:
                committer.hold()
            damage = _damage(broker, rng) if is_damaging else "none"
            while rng.random() < 0.15:  # again, while it recovers or loads
                broker.launch()
                time.sleep(rng.uniform(0.0, 0.4))
                broker.kill()
                kills += 1
            broker.start()
            faults = _faults(broker, all_promises)
            for committer in raw:
                committer.release()
            commits = sum(promises.count for promises in all_promises)
            say(
                f"round {number:3}/{rounds}: killed after {load_seconds:.2f} s, {commits:,} commits; damage: {damage}"
            )
            if faults:
                break
    for actor in chain(raw, churns):
        actor.stop()
    if not faults:
        faults = _finish(broker, churns, load)
    faults += [error for promises in all_promises for error in promises.errors]
    broker.restart()
    faults += _faults(broker, all_promises)
    broker.stop()
    commits = sum(promises.count for promises in all_promises)
    return GroupReport(number, kills, commits, list(dict.fromkeys(faults)))


def _wait_for_progress(all_promises: list[Promises]) -> None:
    """Wait until every group has committed since the last start, so that the kill comes under load."""
    before = {promises.group: promises.count for promises in all_promises}

    def waiting() -> list[str]:
        return [promises.group for promises in all_promises if promises.count <= before[promises.group]]

    deadline = time.monotonic() + PROGRESS_SECONDS
    while stuck := waiting():
        assert time.monotonic() < deadline, f"no commits for {PROGRESS_SECONDS:.0f} s by {stuck}"
        time.sleep(0.005)


def _damage(broker: Broker, rng: random.Random) -> str:
    """Append what a torn write would leave. Written data is not touched."""
    folders = sorted(broker.log_directories[0].glob("__consumer_offsets-*"))
    chosen = rng.sample(folders, rng.randint(0, min(2, len(folders))))
    return "; ".join(damage_tail(folder, rng, promised_end=None) for folder in chosen) or "none"


def _faults(broker: Broker, all_promises: list[Promises]) -> list[str]:
    """Compare the groups' offsets with what was acknowledged before."""
    faults = []
    with WireConnection(broker.port) as connection:
        for promises in all_promises:
            promised = dict(promises.acknowledged)
            found = committed(connection, promises.group)
            asked = dict(promises.asked)
            faults += offset_faults(promises.group, promised=promised, asked=asked, found=found)
    return faults


def offset_faults(
    group: str, *, promised: dict[int, int], asked: dict[int, int], found: dict[int, tuple[int, str]]
) -> list[str]:
    """The faults of one group's offsets; empty if there are none."""
    faults = []
    for partition in PARTITIONS:
        offset, metadata = found.get(partition, (-1, ""))
        if offset < promised.get(partition, -1):
            faults.append(
                f"{group}: partition {partition} went back to {offset}, but {promised[partition]} was acknowledged"
            )
        if offset > asked.get(partition, -1):
            faults.append(f"{group}: partition {partition} is at {offset}, which was never committed")
        if metadata and metadata != f"at {offset}":
            faults.append(f"{group}: partition {partition} is at {offset}, with the metadata of {metadata!r}")
    return faults


def committed(connection: WireConnection, group: str) -> dict[int, tuple[int, str]]:
    """Offset and metadata by partition, after the coordinator has loaded them."""
    topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=PARTITIONS)
    request = OffsetFetchRequest(group_id=group, topics=[topic])
    answers = []

    def is_loaded() -> bool:
        answers[:] = [ask(connection, request, FETCH_VERSION)]
        return answers[0].error_code not in NOT_YET

    wait_until(is_loaded, f"the offsets of {group} are loaded", seconds=PROGRESS_SECONDS)
    assert answers[0].error_code is ErrorCode.NONE, answers[0]
    return {
        found.partition_index: (found.committed_offset, found.metadata or "")
        for found in answers[0].topics[0].partitions
    }


def _finish(broker: Broker, churns: list[Churn], load: Load) -> list[str]:
    """After the last start the groups still work: each reads to the end and commits it."""
    with WireConnection(broker.port) as connection:
        ends = {partition: end_offset(connection, TOPIC, partition) for partition in PARTITIONS}
        faults = (
            [] if sum(ends.values()) == len(load.written) else [f"{len(load.written)} written, {ends} there"]
        )
        for churn in churns:
            churn.read_to(ends)
            found = {
                partition: offset
                for partition, (offset, _) in committed(connection, churn.promises.group).items()
            }
            if found != ends:
                faults.append(
                    f"{churn.promises.group}: committed {found} in the end, but the topic ends at {ends}"
                )
    return faults
