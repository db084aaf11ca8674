"""`penstock spark cluster`: start it, print its address, and run until a signal or until a part of it exits."""

from __future__ import annotations

import signal
import socket
import sys
import threading

from penstock.cli.output import Output, count_of, say
from penstock.runtime.signals import signals_to_handle

CHECK_SECONDS = 1.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_cluster(
    output: Output,
    *,
    workers: int,
    cores: int | None,
    memory: str,
    host: str,
    port: int | None,
    connect: bool,
    connect_port: int | None,
) -> int:
    """Run a cluster until a signal stops it. Returns the exit status."""
    from penstock.spark.cluster import DEFAULT_CONNECT_PORT, DEFAULT_PORT, Cluster

    ending = signals_to_handle(*ENDING)
    for number in ending:  # like Ctrl-C, also during startup: no process may stay behind
        signal.signal(number, signal.default_int_handler)
    cluster = Cluster(
        workers=workers,
        cores=cores,
        memory=memory,
        host=host,
        port=port or _unless_taken(host, DEFAULT_PORT),
        connect=connect,
        connect_port=connect_port or _unless_taken(host, DEFAULT_CONNECT_PORT),
    )
    try:
        with output.progress("starting the cluster"), cluster:
            _announce(output, cluster.url, cluster.connect_url, workers, cluster.cores, memory)
            is_stopped = threading.Event()
            for number in ending:
                signal.signal(number, lambda *_: is_stopped.set())
            while not is_stopped.wait(CHECK_SECONDS):
                cluster.check()
            say("stopping the cluster")
    except KeyboardInterrupt:
        say("stopped before it was ready")
    return 0


def _announce(
    output: Output, url: str, connect_url: str | None, workers: int, cores: int, memory: str
) -> None:
    if output.as_json:
        output.result(
            "", {"url": url, "connect": connect_url, "workers": workers, "cores": cores, "memory": memory}
        )
    else:
        connect = f" and {connect_url}" if connect_url else ""
        size = f"{count_of(workers, 'worker')} of {count_of(cores, 'core')} and {memory}"
        print(f"penstock spark ready: {url}{connect} ({size})")
    sys.stdout.flush()


def _unless_taken(host: str, port: int) -> int | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return None
        return port
