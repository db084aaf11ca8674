"""Random changes of random partitions: the record is the one that Apache Kafka's controller writes."""

from __future__ import annotations

import random
from dataclasses import replace

from oracle.elections import Case, kafka_answers, record_text
from penstock.controller.elections import RECOVERED, RECOVERING, Change, Election, Electorate
from penstock.metadata.directories import UNASSIGNED
from penstock.metadata.image import NO_LEADER, PartitionImage

CASES = 20_000
NODES = (1, 2, 3, 4, 5)


def test_the_records_are_those_of_kafka() -> None:
    rng = random.Random(20)
    cases = [random_case(rng) for _ in range(CASES)]

    differences = [
        f"{case.line()}\n  ours    {ours}\n  Kafka's {theirs}"
        for case, theirs in zip(cases, kafka_answers(cases), strict=True)
        if (ours := record_text(case.ours())) != corrected(case, theirs)
    ]

    assert not differences, f"{len(differences)} differences, the first:\n" + "\n".join(differences[:10])


def corrected(case: Case, answer: str) -> str:
    """Kafka's record without two oddities: it keeps replicas that a reassignment removed among the eligible leader
    replicas, where they can never lead, and it may remember -1 as the last known leader."""
    words = answer.split(" ")
    if len(words) < 8:
        return answer
    before = list(case.partition.eligible_leaders)
    replicas = case.partition.replicas if words[2] == "-" else _numbers(words[2])
    eligible = before if words[6] == "-" else _numbers(words[6])
    eligible = [node_id for node_id in eligible if node_id in replicas]
    words[6] = "-" if eligible == before else f"[{','.join(map(str, eligible))}]"
    words[7] = "-" if words[7] == "[-1]" else words[7]
    return " ".join(words)


def _numbers(word: str) -> list[int]:
    return [int(number) for number in word[1:-1].split(",") if number]


def random_case(rng: random.Random) -> Case:
    partition = random_partition(rng)
    alive = frozenset(node_id for node_id in NODES if rng.random() < 0.6)
    electorate = Electorate(
        is_acceptable=alive.__contains__,
        min_isr=rng.randint(1, 3),
        has_eligible_leaders=rng.random() < 0.8,
        election=rng.choice(list(Election)),
    )
    if not electorate.has_eligible_leaders:
        partition = replace(partition, eligible_leaders=(), last_known_leaders=())
    return Case(partition, random_change(rng, partition), alive, electorate)


def random_partition(rng: random.Random) -> PartitionImage:
    """A state that the controller can produce: the leader is in the ISR, eligible replicas are not."""
    replicas = tuple(rng.sample(NODES, rng.randint(1, 4)))
    isr = tuple(node_id for node_id in replicas if rng.random() < 0.6)
    others = sorted(node_id for node_id in replicas if node_id not in isr)
    eligible = tuple(node_id for node_id in others if rng.random() < 0.4)
    leader = rng.choice(isr) if isr and rng.random() < 0.8 else NO_LEADER
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    if len(replicas) > 1 and rng.random() < 0.3:
        removing = tuple(sorted(rng.sample(replicas, rng.randint(0, len(replicas) - 1))))
        adding = tuple(
            sorted(node_id for node_id in replicas if node_id not in removing and rng.random() < 0.5)
        )
    return PartitionImage(
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=100,
        partition_epoch=200,
        directories=(UNASSIGNED,) * len(replicas),
        is_recovering=rng.random() < 0.1,
        adding_replicas=adding,
        removing_replicas=removing,
        eligible_leaders=eligible,
        last_known_leaders=(rng.choice(replicas),) if leader == NO_LEADER and rng.random() < 0.5 else (),
    )


def random_change(rng: random.Random, partition: PartitionImage) -> Change:
    kind = rng.randrange(6)
    node_id = rng.choice(NODES)
    isr = [other for other in partition.isr if other != node_id]
    if kind == 0:
        return Change(isr=isr)
    if kind == 1:
        return Change(isr=isr, unclean_shutdown=(node_id,))
    if kind == 2:
        return Change(
            isr=[other for other in partition.replicas if rng.random() < 0.6],
            leader_recovery_state=rng.choice((None, RECOVERED, RECOVERING)),
        )
    if kind == 3:
        target = rng.sample(NODES, rng.randint(1, 4))
        removing = sorted(set(partition.replicas) - set(target))
        return Change(
            replicas=[*target, *removing],
            adding=sorted(set(target) - set(partition.replicas)),
            removing=removing,
        )
    if kind == 4:
        replicas = [other for other in partition.replicas if other not in partition.adding_replicas]
        kept = [other for other in partition.isr if other not in partition.adding_replicas]
        if replicas and kept:
            return Change(isr=kept, replicas=replicas, adding=(), removing=())
    return Change()
