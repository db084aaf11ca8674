"""`connect-standalone.sh`, `connect-distributed.sh`, `connect-mirror-maker.sh`: not there yet, and they say so."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from penstock.cli.failures import FAILED

SERVES_SEVERAL = True

SERVICES = {
    "connect-standalone": "Connect",
    "connect-distributed": "Connect",
    "connect-mirror-maker": "Mirroring between clusters",
}


def run(arguments: Sequence[str], *, tool: str) -> int:
    print(
        f"{SERVICES[tool]} is still to come; until then Apache Kafka's own {tool}.sh works with this broker.",
        file=sys.stderr,
    )
    return FAILED
