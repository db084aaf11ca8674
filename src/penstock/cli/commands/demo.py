"""`penstock demo`: its options. `cli.demo` does the work."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.declare import Command, option


def demo(
    *,
    seconds: Annotated[
        float | None, option("--seconds", help="Stop after this many seconds.", minimum=0)
    ] = None,
    port: Annotated[
        int | None,
        option("--port", help="Port of the broker; by default 9092, or a free one.", minimum=1),
    ] = None,
    nodes: Annotated[
        int, option("--nodes", help="Run a cluster of this many nodes; kill one and watch.", minimum=1)
    ] = 1,
    broker_alone: Annotated[
        bool, option("--broker-alone", help="Without Spark: only produce and consume records.")
    ] = False,
) -> int:
    """Run a live demo: a broker, incoming orders, and a Spark pipeline that counts them exactly once.

    It runs until Ctrl-C, or for --seconds, and ends with a summary of input and output. Without Java for Spark it shows
    only one broker, and names what is missing. With --nodes 3, every record has three replicas.
    """
    from penstock.cli.demo import demo

    return demo(seconds=seconds, port=port, nodes=nodes, is_broker_alone=broker_alone)


command = Command(demo, examples=["penstock demo", "penstock demo --seconds 60", "penstock demo --nodes 3"])
