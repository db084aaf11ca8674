"""`kafka-e2e-latency.sh`: end-to-end latency; with flags, or with the positional arguments of older versions."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.failures import Refusal
from penstock.cli.flags import UsageError
from penstock.cli.kafka.tool import BOOTSTRAP_SERVER, Options, Tool, client_settings, flag

POSITIONS = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size", "command-config")

TOOL = Tool(
    "USAGE: kafka-e2e-latency.sh bootstrap-server topic num-records producer-acks record-size [command-config]",
    BOOTSTRAP_SERVER,
    flag("topic", "The topic to use for the test.", "topic-name", is_required=True),
    flag("num-records", "The number of messages to send.", "count", is_required=True),
    flag("producer-acks", "1 or all.", "producer acks", is_required=True),
    flag(
        "record-size", "The size of each message payload in bytes.", "message size in bytes", is_required=True
    ),
    flag("command-config", "Property file with settings of both clients.", "config file"),
    positional="arguments",
)


def translate(arguments: Sequence[str]) -> Sequence[str]:
    """The positional arguments of older versions, as flags."""
    if arguments and not any(word.startswith("-") for word in arguments):
        if len(arguments) not in (5, 6):
            raise Refusal(
                f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got {len(arguments)}. "
                "Usage: bootstrap-server topic num-records producer-acks record-size [optional] command-config"
            )
        arguments = [
            word for pair in zip(POSITIONS, arguments, strict=False) for word in (f"--{pair[0]}", pair[1])
        ]
    return arguments


def run(options: Options) -> int:
    from penstock.cli.perf.end_to_end import measure

    acks = options.text("producer-acks")
    if acks not in ("1", "all"):
        raise UsageError("Latency testing requires synchronous acknowledgement. Please use 1 or all")

    def on_record(number: int, took_ms: float) -> None:
        if number % 1000 == 0:
            print(f"{number}\t{took_ms}", flush=True)

    latencies = measure(
        options.text("topic"),
        count=options.number("num-records"),
        size=options.number("record-size"),
        acks=acks,
        settings=client_settings(options),
        on_record=on_record,
    )
    p50, p99, p999 = (int(value) for value in latencies.percentiles(0.5, 0.99, 0.999))
    print(f"Avg latency: {latencies.mean:.4f} ms")
    print(f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}")
    return 0
