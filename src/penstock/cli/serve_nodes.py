"""`penstock serve --nodes`: several nodes on this host, one process each. `node.local_cluster` runs them.

`python -m penstock.cli.serve_nodes FILE LEVEL` is the process of one node: `penstock serve FILE`, which also stops when
its standard input ends, because then the program that started it has ended.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from penstock.cli.failures import FAILED, Misuse, Refusal
from penstock.cli.logs import set_up_logging
from penstock.cli.serve import DEFAULT_PORT, read_properties_file, read_settings, serve
from penstock.cli.values import read_pairs
from penstock.config.broker import default_data_directory
from penstock.node.local_layout import LayoutRefused, LocalLayout, LocalNode, lock, plan, write

logger = logging.getLogger(__name__)

STDIN = 0


def serve_nodes(
    count: int,
    file: str | None,
    assignments: Sequence[str],
    *,
    data: str | None,
    host: str,
    port: int | None,
    log_level: str,
) -> int:
    """Run `count` nodes until a signal stops them. Returns the exit status."""
    common = {**(read_properties_file(file) if file is not None else {}), **read_pairs(
        assignments, option="--set", example="num.partitions=3"
    )}  # fmt: skip
    # Not inside the default log directory of a single node.
    directory = Path(data).absolute() if data else Path(f"{default_data_directory(os.environ)}-cluster")

    def plan_nodes() -> LocalLayout:
        try:
            return plan(directory, count=count, port=port or DEFAULT_PORT, host=host, settings=common)
        except LayoutRefused as refused:
            raise Misuse(str(refused)) from refused

    layout = plan_nodes()
    # A wrong setting is reported once and with its place, before anything is written.
    read_settings(None, [f"{name}={value}" for name, value in layout.nodes[0].settings.items()])
    try:
        held = lock(directory)
    except LayoutRefused as refused:
        raise Refusal(str(refused)) from refused
    try:
        layout = plan_nodes()  # another process may have created the cluster before the lock was held
        write(layout)
        return _run(layout, log_level)
    finally:
        held.release()


def _run(layout: LocalLayout, log_level: str) -> int:
    set_up_logging(log_level)

    import asyncio

    from penstock.node.local_cluster import LocalCluster, NodeFailed

    def command(node: LocalNode) -> list[str]:
        return [sys.executable, "-m", "penstock.cli.serve_nodes", str(node.properties_file), log_level]

    try:
        return asyncio.run(LocalCluster(layout, command).run(_announce))
    except NodeFailed as failed:
        print(f"penstock: {failed}", file=sys.stderr)
        return FAILED


def _announce(layout: LocalLayout) -> None:
    print(
        f"penstock ready: {len(layout.nodes)} nodes of cluster {layout.cluster_id} serve "
        f"{layout.bootstrap_servers} (data in {layout.data})",
        flush=True,
    )


def main(arguments: Sequence[str]) -> int:
    """One node, as a child process."""
    file, log_level = arguments
    threading.Thread(target=_stop_with_parent, name="parent", daemon=True).start()
    try:
        return serve(file, (), log_level=log_level)
    except Refusal as refusal:
        print(f"penstock: {refusal}", file=sys.stderr)
        return refusal.status


def _stop_with_parent() -> None:
    while os.read(STDIN, 1 << 10):  # nothing is ever written to it
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
