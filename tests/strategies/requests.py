"""Requests that a hostile or broken client might send: plausible enough to pass the first check, and wrong.

Each field is drawn by its name: from what the test's node has (`TOPICS`, a few partitions), from values that have
broken brokers before, or from anything that the type allows. `damaged` breaks the bytes of a valid request.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from oracle.records import batches as reference
from penstock.protocol.plan import Array, Blob, Fixed, Nested, Plan, Shape, Text
from penstock.protocol.types import WireType
from penstock.records.batch import Compression
from penstock.records.message_set import write_message_set
from strategies.messages import NUMBERS, TEXTS
from strategies.records import NEW_RECORDS, batches, damaged_batches, placed_records

TOPICS = ("plain", "zipped", "compacted", "stamped")
"""Topics of the test's node, each with `PARTITIONS` partitions."""

PARTITIONS = 2

HOSTILE_NAMES = (
    "",
    ".",
    "..",
    "../x",
    "/etc/passwd",
    "a/b",
    "a\x00b",
    "x" * 249,
    "x" * 250,
    "x" * 32767,  # the longest possible string: a response that adds a word to it is too long
    "plain\n",
    "Grüße",
    "__cluster_metadata",
    "__consumer_offsets",
    "__transaction_state",
    "new-topic",
    "new.topic",
    "new_topic",
)


def stand_in(topic: str) -> bytes:
    """Stands for a topic id, which only the node knows. The test replaces it."""
    return topic.encode().rjust(16, b"#")


TOPIC_IDS = st.sampled_from(
    [*map(stand_in, TOPICS), *map(stand_in, TOPICS), bytes(16), bytes(15) + b"\x01", b"\xff" * 16]
) | st.binary(min_size=16, max_size=16)
EDGES = st.sampled_from([-(2**31), -2, -1, 0, 1, 2, 3, 1000, 2**31 - 1])
LONG_EDGES = EDGES | st.sampled_from([-(2**63), 2**31, 2**63 - 1, 1_700_000_000_000])
SETTINGS = st.sampled_from(
    [
        ("cleanup.policy", "compact"),
        ("compression.type", "zstd"),
        ("compression.type", "nonsense"),
        ("max.message.bytes", "0"),
        ("max.message.bytes", "-1"),
        ("segment.bytes", "1048576"),
        ("segment.bytes", "14"),
        ("retention.ms", "-2"),
        ("retention.ms", "99999999999999999999"),
        ("min.insync.replicas", "0"),
        ("flush.messages", "1"),
        ("log.retention.ms", "1"),
        ("max.connections", "1000"),
        ("message.timestamp.type", "LogAppendTime"),
        ("unknown.key", "x"),
        ("", ""),
        ("retention.ms\x00", "1"),
        ("x" * 32767, "y" * 32767),
    ]
)

NAMED: dict[str, st.SearchStrategy[Any]] = {
    "acks": st.sampled_from([-1, 0, 1, 2, -2]),
    "broker_ids": st.sampled_from([1, 1, 1, 0, -1, 2**31 - 1]),
    "config_operation": st.integers(-1, 5),
    "count": st.sampled_from([-1, 0, 1, 3, 4, 20_000, 2**31 - 1]),
    "current_leader_epoch": st.sampled_from([-1, 0, 0, 1, -2, 2**31 - 1]),
    "fetch_offset": LONG_EDGES | st.integers(0, 5),
    "feature": st.sampled_from(["metadata.version", "kraft.version", "group.version", "x", ""]),
    "isolation_level": st.sampled_from([0, 1, 2, -1]),
    "max_bytes": EDGES,
    "max_wait_ms": st.sampled_from([-1, 0, 1, 50, 500]),
    "min_bytes": EDGES,
    "num_partitions": st.sampled_from([-2, -1, 0, 1, 3, 10_001, 2**31 - 1]),
    "offset": LONG_EDGES | st.integers(0, 5),
    "partition_max_bytes": EDGES,
    "replica_id": st.sampled_from([-1, -1, -2, 1, 2, 7]),
    "replication_factor": st.sampled_from([-2, -1, 0, 1, 1, 2, 2**15 - 1]),
    "resource_name": st.sampled_from([*TOPICS, *HOSTILE_NAMES, "1", "2", "-1"]),
    "resource_type": st.sampled_from([0, 1, 2, 2, 4, 4, 8, 16, 32, 33, -1]),
    "session_epoch": st.sampled_from([-1, 0, 1, 2, 2**31 - 1, -2]),
    "session_id": st.sampled_from([0, 0, 1, -1, 2**31 - 1]),
    "timeout_ms": st.sampled_from([-1, 0, 1, 1000, 2**31 - 1]),
    "timestamp": LONG_EDGES | st.integers(-7, 0),
}
NAMED["topic"] = NAMED["topic_name"] = NAMED["topic_names"] = st.sampled_from(
    [*TOPICS, *TOPICS, *HOSTILE_NAMES]
)
NAMED["partition"] = NAMED["partition_index"] = NAMED["index"] = NAMED["partition_indexes"] = (
    st.integers(0, PARTITIONS - 1) | EDGES
)
NAMED["partitions"] = NAMED["partition_index"]  # of requests in which partitions are plain numbers
NAMED["response_partition_limit"] = EDGES


@st.composite
def message_sets(draw: st.DrawFn) -> bytes:
    """What producers before 2017 sent."""
    magic = draw(st.sampled_from([0, 1]))
    codec = draw(st.sampled_from([Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]))
    return bytes(write_message_set(draw(placed_records()), magic=magic, codec=codec))


@st.composite
def spoilt_bytes(draw: st.DrawFn, source: st.SearchStrategy[bytes]) -> bytes:
    data = bytearray(draw(source))
    for _ in range(draw(st.integers(1, 4))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@st.composite
def produced_batches(draw: st.DrawFn) -> bytes:
    """Batches as a client sends them, with every codec."""
    return bytes(
        reference.build_batch(
            draw(st.lists(NEW_RECORDS, min_size=1, max_size=4)),
            compression=draw(st.sampled_from(Compression)),
        )
    )


RECORDS = (
    produced_batches()
    | batches().map(bytes)
    | damaged_batches()
    | message_sets()
    | spoilt_bytes(message_sets())
    | st.binary(max_size=80)
)


def requests_of(plan: Plan) -> st.SearchStrategy[Any]:
    """Messages that the plan's version can encode, drawn as the module's docstring says."""
    fields = {step.name: values_of(step.shape, step.name, plan) for step in plan.steps}
    for step in plan.tagged:
        fields[step.name] = st.builds(step.options.make_default) | values_of(step.shape, step.name, plan)
    return st.builds(plan.cls, **fields)


def values_of(shape: Shape, name: str, plan: Plan) -> st.SearchStrategy[Any]:
    match shape:
        case Fixed(WireType.UUID):
            return TOPIC_IDS
        case Fixed(type_):
            if name not in NAMED:
                return NUMBERS[type_] | EDGES.filter(lambda value: fits(value, type_))
            return NAMED[name].filter(lambda value: fits(value, type_)) | NUMBERS[type_]
        case Text(_, nullable):
            strategy: st.SearchStrategy[Any] = names_for(name, plan)
        case Blob(_, nullable, is_records):
            strategy = RECORDS if is_records else st.binary(max_size=20)
        case Array(_, nullable, element):
            strategy = st.lists(values_of(element, name, plan), max_size=3)
        case Nested(inner, nullable):
            strategy = requests_of(inner)
    return st.none() | strategy if nullable else strategy


def names_for(name: str, plan: Plan) -> st.SearchStrategy[str]:
    """A string field is a topic or a setting, by the name of its struct."""
    if "Config" in plan.cls.__name__ and name in ("name", "value"):
        index = 0 if name == "name" else 1
        return SETTINGS.map(lambda pair: pair[index]) | TEXTS
    if name == "name":
        return NAMED["topic"] | TEXTS
    return NAMED.get(name, TEXTS) | TEXTS


def fits(value: int, type_: WireType) -> bool:
    bits = {WireType.INT8: 7, WireType.INT16: 15, WireType.INT32: 31, WireType.INT64: 63}.get(type_)
    return bits is not None and -(2**bits) <= value < 2**bits


@st.composite
def damage(draw: st.DrawFn, data: bytes) -> bytes:
    """The same bytes with a few changed, removed or inserted, or truncated."""
    spoilt = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(spoilt)))
        match draw(st.integers(0, 4)):
            case 0:
                spoilt[at : at + 1] = bytes((draw(st.integers(0, 255)),))
            case 1:
                del spoilt[at : at + draw(st.integers(1, 4))]
            case 2:
                spoilt[at:at] = draw(st.binary(min_size=1, max_size=4))
            case 3:
                del spoilt[at:]
            case 4:
                spoilt[at : at + 4] = draw(st.sampled_from([b"\xff" * 4, b"\x7f\xff\xff\xff", bytes(4)]))
    return bytes(spoilt)
