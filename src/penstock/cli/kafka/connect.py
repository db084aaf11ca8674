"""`connect-standalone.sh`, `connect-distributed.sh`, `connect-mirror-maker.sh`: not supported yet."""

from __future__ import annotations

import sys

from penstock.cli.failures import FAILED

SERVICES = {
    "connect-standalone": "Connect",
    "connect-distributed": "Connect",
    "connect-mirror-maker": "Mirroring between clusters",
}


def run(tool: str) -> int:
    print(
        f"{SERVICES[tool]} is not supported yet; Apache Kafka's own {tool}.sh works with this broker.",
        file=sys.stderr,
    )
    return FAILED
