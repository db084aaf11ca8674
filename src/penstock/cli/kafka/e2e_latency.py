"""`kafka-e2e-latency.sh`: a record there and back, by Kafka's positional arguments of old or its flags of today."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.failures import Refusal
from penstock.cli.kafka.flags import (
    BOOTSTRAP_SERVER,
    BadFlags,
    Flag,
    Flags,
    Said,
    client_properties,
    run_tool,
)

POSITIONS = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size", "command-config")

FLAGS = Flags(
    "USAGE: kafka-e2e-latency.sh bootstrap-server topic num-records producer-acks record-size [command-config]",
    BOOTSTRAP_SERVER,
    Flag("topic", "The topic to use for the test.", "topic-name"),
    Flag("num-records", "The number of messages to send.", "count"),
    Flag("producer-acks", "1 or all.", "producer acks"),
    Flag("record-size", "The size of each message payload in bytes.", "message size in bytes"),
    Flag("command-config", "Property file with settings of both clients.", "config file"),
    words="arguments",
)


def run(arguments: Sequence[str]) -> int:
    if arguments and not any(word.startswith("-") for word in arguments):
        if len(arguments) not in (5, 6):
            raise Refusal(
                f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got {len(arguments)}. "
                "Usage: bootstrap-server topic num-records producer-acks record-size [optional] command-config"
            )
        arguments = [
            word for pair in zip(POSITIONS, arguments, strict=False) for word in (f"--{pair[0]}", pair[1])
        ]
    return run_tool(FLAGS, arguments, _measure)


def _measure(said: Said) -> int:
    from penstock.cli.perf.end_to_end import measure

    for name in POSITIONS[1:5]:
        if not said.has(name):
            raise BadFlags(f'Missing required argument "[{name}]"')
    acks = said.text("producer-acks")
    if acks not in ("1", "all"):
        raise BadFlags("Latency testing requires synchronous acknowledgement. Please use 1 or all")

    def told(number: int, took_ms: float) -> None:
        if number % 1000 == 0:
            print(f"{number}\t{took_ms}", flush=True)

    latencies = measure(
        said.text("topic"),
        count=said.number("num-records"),
        size=said.number("record-size"),
        acks=acks,
        settings=client_properties(said, files=("command-config",), properties=()),
        told=told,
    )
    p50, p99, p999 = (int(value) for value in latencies.percentiles(0.5, 0.99, 0.999))
    print(f"Avg latency: {latencies.mean:.4f} ms")
    print(f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}")
    return 0
