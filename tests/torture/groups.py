"""Kill a broker with SIGKILL in the middle of rebalances and commits, and see that no group loses what it committed.

Some groups commit as fast as they can, others have members that come and go. At random moments the process is killed,
sometimes again while it loads; in between its logs of offsets end with what a torn write might leave there. After each
start every group must find at least the offsets that were acknowledged, and none that nobody asked for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from harness.admin import create_topics
from harness.brokers import Broker
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
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.assignment.interval.ms": "0",
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
    """Runs it all on a broker that is not started yet, and leaves it stopped."""
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
            while rng.random() < 0.15:  # and once more, while it recovers or loads
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
    faults += [complaint for promises in all_promises for complaint in promises.complaints]
    broker.restart()
    faults += _faults(broker, all_promises)
    broker.stop()
    commits = sum(promises.count for promises in all_promises)
    return GroupReport(number, kills, commits, list(dict.fromkeys(faults)))


def _wait_for_progress(all_promises: list[Promises]) -> None:
    """Until every group committed something since the last start: only then is a kill in the middle of work."""
    before = {promises.group: promises.count for promises in all_promises}

    def waiting() -> list[str]:
        return [promises.group for promises in all_promises if promises.count <= before[promises.group]]

    deadline = time.monotonic() + PROGRESS_SECONDS
    while stuck := waiting():
        assert time.monotonic() < deadline, f"nothing was committed for {PROGRESS_SECONDS:.0f} s by {stuck}"
        time.sleep(0.005)


def _damage(broker: Broker, rng: random.Random) -> str:
    """What a torn write leaves behind the last whole one. Nothing that was written is touched."""
    folders = sorted(broker.log_directories[0].glob("__consumer_offsets-*"))
    chosen = rng.sample(folders, rng.randint(0, min(2, len(folders))))
    return "; ".join(damage_tail(folder, rng, promised_end=None) for folder in chosen) or "none"


def _faults(broker: Broker, all_promises: list[Promises]) -> list[str]:
    """What the groups find now, held against what they were promised before."""
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
    """What is wrong with the offsets of one group, in words; nothing if all is well."""
    faults = []
    for partition in PARTITIONS:
        offset, metadata = found.get(partition, (-1, ""))
        if offset < promised.get(partition, -1):
            faults.append(
                f"{group}: partition {partition} went back to {offset}, but {promised[partition]} was acknowledged"
            )
        if offset > asked.get(partition, -1):
            faults.append(f"{group}: partition {partition} is at {offset}, which nobody committed")
        if metadata and metadata != f"at {offset}":
            faults.append(f"{group}: partition {partition} is at {offset}, with the metadata of {metadata!r}")
    return faults


def committed(connection: WireConnection, group: str) -> dict[int, tuple[int, str]]:
    """Offset and metadata by partition, once the coordinator has loaded them."""
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
    """After the last start the groups still work: each reads on to the end, and commits it."""
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
                    f"{churn.promises.group}: committed {found} at the end, but the topic ends at {ends}"
                )
    return faults
