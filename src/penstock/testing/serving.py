"""The process behind `penstock.testing.Broker`: the node that `penstock serve` runs, with a script of faults before it.

Standard input is the line to the test: each line is a command for the script (JSON), answered by one line on standard
output. When the line ends, the test is gone, however it ended, and so the broker stops: none is ever left behind.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence

from penstock.cli.logs import set_up_logging
from penstock.cli.serve import Refusal, read_settings
from penstock.node import process
from penstock.testing.script import Script, ScriptedServer

STDIN = 0


def main(assignments: Sequence[str]) -> int:
    """Serve with these settings (`key=value`) until told to stop; the exit status."""
    script = Script()
    set_up_logging("info")
    threading.Thread(target=_listen, args=(script,), name="script", daemon=True).start()
    try:
        return process.run(
            read_settings(None, assignments),
            on_ready=_announce,
            wrap_server=lambda server: ScriptedServer(server, script),
        )
    except (Refusal, process.CannotStart, OSError) as problem:
        print(f"penstock: {problem}", file=sys.stderr)
        return 1


def _announce(ready: process.Ready) -> None:
    print(f"penstock ready: {', '.join(ready.addresses)}", flush=True)


def _listen(script: Script) -> None:
    # Not by sys.stdin, whose lock a thread that still waits would hold when the interpreter ends.
    pending = b""
    while data := os.read(STDIN, 1 << 16):
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            print(json.dumps(script.obey(json.loads(line))), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
