"""The cost of encoding and decoding, in microseconds per message: `python bench/micro/protocol.py`.

The first table is the hot path of a broker, with one topic and one partition per request. The second one compares
optimizations of the compiler with the code that they replaced. Comments in the code that claim a gain name this file.
"""

from __future__ import annotations

import struct
import timeit
from collections.abc import Callable
from typing import Any

from penstock.protocol import interpreter
from penstock.protocol.apis import ApiKey
from penstock.protocol.codec import codec
from penstock.protocol.errors import ERROR_BY_CODE, ErrorCode
from penstock.protocol.headers import encode_request_header, read_request_header
from penstock.protocol.messages import fetch, metadata, produce
from penstock.protocol.plan import plan_message
from penstock.protocol.primitives import ONE_BYTE_VARINTS, varint

TOPIC = "orders-by-region"
TOPIC_ID = bytes(range(16))
RECORDS = bytes(1024)


def main() -> None:
    print("hot path, one topic and one partition       compiled   interpreted")
    for name, message in messages().items():
        for version in versions(type(message)):
            hot_path(f"{name} v{version}", message, version)
    header = memoryview(encode_request_header(ApiKey.PRODUCE, 9, 1, "producer-1"))
    report("request header, decode", lambda: read_request_header(header))
    print("\ntricks of the compiler")
    tricks()


def versions(cls: type[Any]) -> tuple[int, int]:
    """The last version before topic ids, which most clients in the field send, and the newest."""
    newest: int = cls.__declaration__.last_version
    return {0: (9, newest), 1: (11, newest), 3: (9, newest)}[cls.__declaration__.key]


def messages() -> dict[str, Any]:
    partition = produce.PartitionProduceData(index=0, records=RECORDS)
    produced = produce.PartitionProduceResponse(index=0, base_offset=1 << 40)
    asked = fetch.FetchPartition(partition=0, fetch_offset=1 << 40, partition_max_bytes=1 << 20)
    fetched = fetch.PartitionData(partition_index=0, high_watermark=1 << 40, records=RECORDS)
    topic = {"name": TOPIC, "topic_id": TOPIC_ID}
    fetch_topic = {"topic": TOPIC, "topic_id": TOPIC_ID}
    leader = metadata.MetadataResponsePartition(
        partition_index=0, leader_id=1, leader_epoch=1, replica_nodes=[1], isr_nodes=[1], offline_replicas=[]
    )
    return {
        "ProduceRequest": produce.ProduceRequest(
            acks=1,
            timeout_ms=30_000,
            topic_data=[produce.TopicProduceData(**topic, partition_data=[partition])],
        ),
        "ProduceResponse": produce.ProduceResponse(
            responses=[produce.TopicProduceResponse(**topic, partition_responses=[produced])]
        ),
        "FetchRequest": fetch.FetchRequest(
            max_wait_ms=500, min_bytes=1, topics=[fetch.FetchTopic(**fetch_topic, partitions=[asked])]
        ),
        "FetchResponse": fetch.FetchResponse(
            responses=[fetch.FetchableTopicResponse(**fetch_topic, partitions=[fetched])]
        ),
        "MetadataResponse": metadata.MetadataResponse(
            brokers=[metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)],
            cluster_id="penstock",
            controller_id=1,
            topics=[metadata.MetadataResponseTopic(**topic, partitions=[leader])],
        ),
    }


def hot_path(name: str, message: Any, version: int) -> None:
    compiled = codec(type(message), version)
    plan = plan_message(type(message), version)
    encoded = memoryview(compiled.encode(message))
    decode, encode_parts = compiled.decode, compiled.encode_parts
    report(f"{name}, decode", lambda: decode(encoded), lambda: interpreter.decode(plan, encoded))
    report(
        f"{name}, encode",
        lambda: encode_parts(message, b"head"),
        lambda: interpreter.encode_parts(plan, message, b"head"),
    )


def tricks() -> None:
    view = memoryview(bytes(4) + TOPIC.encode() + bytes(100))
    unpack_all = struct.Struct(">iqhB").unpack_from
    unpack_i, unpack_q = struct.Struct(">i").unpack_from, struct.Struct(">q").unpack_from
    unpack_h = struct.Struct(">h").unpack_from
    cls, new = fetch.EpochEndOffset, object.__new__

    def unpack_apart() -> None:
        (_,), (_,), (_,), _ = unpack_i(view, 0), unpack_q(view, 4), unpack_h(view, 12), view[14]

    def make_by_slots() -> None:
        made = new(cls)
        made.epoch, made.end_offset = 1, 2

    report("four fixed fields in one unpack", lambda: unpack_all(view, 0))
    report("... or one after the other", unpack_apart)
    report("a string by tobytes().decode()", lambda: view[4:20].tobytes().decode())
    report("... or by str(view, 'utf-8')", lambda: str(view[4:20], "utf-8"))
    report("an object by stores into its slots", make_by_slots)
    report("... or by its constructor", lambda: cls(epoch=1, end_offset=2))
    report("a short varint from the table", lambda: ONE_BYTE_VARINTS[17])
    report("... or made", lambda: varint(17))
    report("an error code from the dictionary", lambda: ERROR_BY_CODE.get(6))
    report("... or from the enumeration", lambda: ErrorCode(6))
    copied, other = bytes(16 * 1024), bytes(60)
    report("16 KiB of records joined to their head", lambda: b"".join([other, copied]))


def report(name: str, *functions: Callable[[], object]) -> None:
    print(f"{name:45}", *(f"{microseconds(each):9.2f}" for each in functions))


def microseconds(function: Callable[[], object]) -> float:
    timer = timeit.Timer(function)
    count, _ = timer.autorange()
    return min(timer.repeat(repeat=5, number=max(1, count // 5))) / max(1, count // 5) * 1e6


if __name__ == "__main__":
    main()
