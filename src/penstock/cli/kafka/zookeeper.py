"""`zookeeper-server-start.sh` and `zookeeper-server-stop.sh`, for old instructions: they do nothing."""

from __future__ import annotations


def run(tool: str) -> int:
    if tool == "zookeeper-server-stop":
        print("ZooKeeper is not needed, so there is nothing to stop.")
    else:
        print(
            "ZooKeeper is not needed: a node stores the cluster metadata itself. "
            "Continue with bin/kafka-server-start.sh config/server.properties"
        )
    return 0
