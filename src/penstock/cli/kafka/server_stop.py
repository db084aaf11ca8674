"""`kafka-server-stop.sh [--process-role=role] [--node-id=id]`: stops the user's nodes on this machine.

Like Kafka's script, it finds them by the command lines of processes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.cli.failures import FAILED
from penstock.cli.kafka.tool import Options, Tool, flag

PROCESSES = Path("/proc")

TOOL = Tool(
    "USAGE: kafka-server-stop.sh [--process-role=role] [--node-id=id]",
    flag("process-role", "Only nodes with these process.roles.", "role"),
    flag("node-id", "Only the node with this node.id; overrides the role.", "id"),
    needs_arguments=False,
)


class ServingProcess(NamedTuple):
    pid: int
    file: str | None
    assignments: tuple[str, ...]


def run(options: Options) -> int:
    role, node_id = options.get("process-role"), options.get("node-id")
    if role and node_id:
        print("When both node-id and process-role are provided, the value for node-id will take precedence")
    number = signal.Signals["SIG" + os.environ.get("SIGNAL", "TERM").removeprefix("SIG")]
    selected = [process for process in find_nodes() if _is_selected(process, role=role, node_id=node_id)]
    if not selected:
        print("No kafka server to stop")
        return FAILED
    for process in selected:
        os.kill(process.pid, number)
    return 0


def find_nodes() -> Iterator[ServingProcess]:
    """The nodes of this user on this machine."""
    for folder in PROCESSES.glob("[0-9]*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            words = (folder / "cmdline").read_text(errors="replace").split("\0")
            place = os.readlink(folder / "cwd")
        except OSError:  # it has ended, or belongs to another user
            continue
        if (found := read_command(words)) is not None:
            file, assignments = found
            yield ServingProcess(
                int(folder.name), None if file is None else os.path.join(place, file), assignments
            )


def read_command(words: Sequence[str]) -> tuple[str | None, tuple[str, ...]] | None:
    """The file and the settings of a node, or None if the process is not a node."""
    for index, word in enumerate(words[:-1]):
        is_program = os.path.basename(word) == "penstock"  # or `python -m penstock`
        if is_program and words[index + 1] in ("serve", "kafka-server-start", "kafka-server-start.sh"):
            break
    else:
        return None
    file: str | None = None
    assignments: list[str] = []
    rest = iter(words[index + 2 :])
    for word in rest:
        option, _, value = word.partition("=")
        if option in ("--set", "--override", "--log-level"):
            value = value or next(rest, "")
            if option != "--log-level":
                assignments.append(value)
        elif word and not word.startswith("-") and file is None:
            file = word
    return file, tuple(assignments)


def _is_selected(process: ServingProcess, *, role: str | None, node_id: str | None) -> bool:
    if role is None and node_id is None:
        return True
    from penstock.cli.failures import Misuse
    from penstock.cli.serve import read_settings

    try:
        settings = read_settings(process.file, process.assignments)
    except Misuse:  # its file has changed since it started
        return False
    if node_id is not None:
        return str(settings.node_id) == node_id
    assert role is not None
    return {*settings.roles} == {part.strip() for part in role.split(",")}
