"""`kafka-server-start.sh [-daemon] server.properties [--override key=value]*`: `penstock serve` by Kafka's flags.

With `-daemon` the node runs in the background, and logs to a file in LOG_DIR (by default in the user's state
directory). Unlike Kafka's script, this one returns only when the broker is ready or has failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.cli.failures import FAILED
from penstock.cli.kafka.tool import Options, Tool, flag

OUTPUT_FILE = "kafkaServer.out"

TOOL = Tool(
    "USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*",
    flag("override", "A property that overrides the file.", "String"),
    flag("daemon", "Run in the background once it is ready.", also=("-daemon",)),
    flag("name", "Without effect; for Kafka's scripts.", "name", ("-name",)),
    flag("loggc", "Without effect; for Kafka's scripts.", also=("-loggc",), is_hidden=True),
    positional="server.properties",
)


def run(options: Options) -> int:
    from penstock.cli.serve import serve

    file = options.words[0] if options.words else None
    overrides = options.all("override")
    if not options.has("daemon"):
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
            start_new_session=True,  # the node survives the end of this terminal
        )
    assert process.stdout is not None
    # The ready line, or nothing if the node exits before.
    ready = process.stdout.readline().decode(errors="replace")
    process.stdout.close()
    if not ready:
        print(f"The node did not start; its log is {output}. The last lines:", file=sys.stderr)
        print(*output.read_text(errors="replace").splitlines()[-2:], sep="\n", file=sys.stderr)
        return process.wait() or FAILED
    print(f"{ready.rstrip()}\nIt runs as process {process.pid}; its log is {output}")
    return 0


def output_file(environment: Mapping[str, str]) -> Path:
    """The log file of a node in the background."""
    if folder := environment.get("LOG_DIR"):
        return Path(folder) / OUTPUT_FILE
    from penstock.config.broker import default_data_directory

    # Next to the data directory, not in it: each directory in there is a partition.
    return Path(default_data_directory(environment)).with_name("penstock-output") / OUTPUT_FILE
