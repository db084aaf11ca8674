"""`kafka-server-start.sh [-daemon] server.properties [--override key=value]*`: `penstock serve` by Kafka's flags.

With `-daemon` the node goes on by itself when it serves; what it says then stands in a file of LOG_DIR (by default,
of the user's state directory). Kafka's script comes back before anyone knows whether the broker started; this one
does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.cli.failures import FAILED
from penstock.cli.kafka.flags import Flag, Flags, Said, run_tool

OUTPUT_FILE = "kafkaServer.out"

FLAGS = Flags(
    "USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*",
    Flag("override", "Property that should override a value of the file.", "String"),
    Flag("daemon", "Go on in the background, once it serves.", shorts=("-daemon",)),
    Flag("name", "A name for the process, which Kafka's scripts give; without effect.", "name", ("-name",)),
    Flag("loggc", "Logging of a JVM; without effect.", shorts=("-loggc",), is_hidden=True),
    words="server.properties",
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _start)


def _start(said: Said) -> int:
    from penstock.cli.serve import serve

    file = said.words[0] if said.words else None
    overrides = said.all("override")
    if not said.has("daemon"):
        return serve(file, overrides, log_level="info")
    return _start_in_background(file, overrides)


def _start_in_background(file: str | None, overrides: Sequence[str]) -> int:
    output = output_file(os.environ)
    output.parent.mkdir(parents=True, exist_ok=True)
    settings = [word for override in overrides for word in ("--set", override)]
    command = [sys.executable, "-m", "penstock", "serve", *([file] if file else []), *settings]
    with output.open("ab") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            start_new_session=True,  # so that the end of this terminal is not the end of the node
        )
    assert process.stdout is not None
    # The one line that a node prints, or nothing if it ends before: whichever comes first.
    ready = process.stdout.readline().decode(errors="replace")
    process.stdout.close()
    if not ready:
        print(f"The node did not start; {output} tells why. Its last words:", file=sys.stderr)
        print(*output.read_text(errors="replace").splitlines()[-2:], sep="\n", file=sys.stderr)
        return process.wait() or FAILED
    print(f"{ready.rstrip()}\nIt goes on as process {process.pid}; what it has to say is in {output}")
    return 0


def output_file(environment: Mapping[str, str]) -> Path:
    """Where a node in the background writes what it has to say."""
    if folder := environment.get("LOG_DIR"):
        return Path(folder) / OUTPUT_FILE
    from penstock.config.broker import default_data_directory

    # Beside the data, not in it: every folder in there is a partition.
    return Path(default_data_directory(environment)).with_name("penstock-output") / OUTPUT_FILE
