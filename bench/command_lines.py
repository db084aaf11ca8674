"""The duration of a command, beyond the start of the interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.line import Group, Line
from bench.peers import Peer, plain_environment

ALLOWED_S = 0.2
RUNS = 10

INTERPRETER = "python -c pass"
IMPORT = "import penstock"
LIST = "penstock topics --list"


def commands(peer: Peer) -> dict[str, float]:
    """Medians of runs in turn, so that noise meets all; modules are compiled before, as they are after an
    installation."""
    penstock = Path(sys.executable).with_name("penstock")
    lines = {
        INTERPRETER: [sys.executable, "-c", "pass"],
        IMPORT: [sys.executable, "-c", "import penstock"],
        LIST: [str(penstock), "topics", "--list", "--bootstrap-server", f"127.0.0.1:{peer.port}"],
    }
    taken: dict[str, list[float]] = {name: [] for name in lines}
    for number in range(RUNS + 1):
        for name, line in lines.items():
            began = time.perf_counter()
            subprocess.run(line, check=True, capture_output=True, env=plain_environment())
            if number:  # the first run compiles
                taken[name].append(time.perf_counter() - began)
    seconds = {name: statistics.median(runs) for name, runs in taken.items()}
    beyond = {name: seconds[name] - seconds[INTERPRETER] for name in (IMPORT, LIST)}
    return {
        INTERPRETER: seconds[INTERPRETER] * 1000,
        **{f"{name}, beyond the interpreter": extra * 1000 for name, extra in beyond.items()},
        **{f"{name}, of the 0.2 s allowed": extra / ALLOWED_S for name, extra in beyond.items()},
    }


COMMAND_LINES = [
    Group(
        "commands",
        commands,
        [
            Line(INTERPRETER, "ms", False),
            *(Line(f"{name}, beyond the interpreter", "ms", False) for name in (IMPORT, LIST)),
            *(Line(f"{name}, of the 0.2 s allowed", "x", False, 1.0) for name in (IMPORT, LIST)),
        ],
        3,
        between_clients=True,
    ),
]
