"""`zookeeper-server-start.sh` and `zookeeper-server-stop.sh`: lines of old instructions that ask for nothing here."""

from __future__ import annotations

from collections.abc import Sequence

SERVES_SEVERAL = True


def run(arguments: Sequence[str], *, tool: str) -> int:
    if tool == "zookeeper-server-stop":
        print("No ZooKeeper is needed, so there is none to stop.")
    else:
        print(
            "No ZooKeeper is needed: a node keeps the cluster's metadata itself. "
            "Go on with bin/kafka-server-start.sh config/server.properties"
        )
    return 0
