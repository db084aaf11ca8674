"""The guides to the quick start, the command line and pipelines show what really happens.

The lines of `sh` blocks are typed in order into one shell per guide, against one broker. The output shown must
appear; figures, ids and column widths may differ, `...` stands for anything, and a block marked `status=1` must fail
so. Addresses and folders are replaced by those of the test, `penstock` is the one of this project, and Python that
begins with a file name (`# sales.py`) is saved under it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.brokers import ROOT, PenstockBroker, penstock_command, penstock_environment

GUIDES = ROOT / "docs" / "guides"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WAIT_SECONDS = 120.0  # a pipeline starts Spark

pytestmark = pytest.mark.penstock_only("tests Penstock's guides")


class Step(NamedTuple):
    line: str
    shown: list[str]
    status: int


def steps_of(guide: str) -> list[Step]:
    steps: list[Step] = []
    for language, remarks, body in BLOCK.findall((GUIDES / guide).read_text()):
        if language != "sh" or remarks.strip() == "serve":
            continue
        status = int(remarks.partition("status=")[2] or 0)
        for line in body.splitlines():
            if line.startswith("$ "):
                steps.append(Step(line[2:], [], status))
            elif steps and not line.startswith("make "):
                steps[-1].shown.append(line)
    return steps


def pattern_of(shown: list[str]) -> str:
    """What a shown text matches: other figures, ids and gaps, and anything for dots."""
    text = "\n".join(shown)
    text = re.sub(r"\{\.\.\.\}", "...", text)
    parts = re.split(r"(\.\.\.|(?<![\w-])[\w-]{22}(?![\w-])|\d[\d,.:TZ-]*|[ \t]+)", text)
    made = []
    for number, part in enumerate(parts):
        if number % 2 == 0:
            made.append(re.escape(part))
        elif part == "...":
            made.append(r"[\s\S]*?")
        elif part[0].isspace():
            made.append(r"[ \t]+" if made and made[-1] else r"[ \t]*")
        elif len(part) == 22 and not part.isdecimal():
            made.append(r"[\w-]{22}")
        else:
            made.append(r"\d[\d,.:TZ-]*")
    return "".join(made)


def files_of(guide: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for language, _, body in BLOCK.findall((GUIDES / guide).read_text()):
        if language == "python" and (named := re.match(r"# (\w+\.py)\n", body)):
            found[named[1]] = body
    return found


class Shell:
    """One shell that keeps variables from line to line."""

    def __init__(self, node: PenstockBroker, folder: Path) -> None:
        self._node = node
        self._folder = folder
        (folder / "bin").symlink_to(ROOT / "bin")
        (folder / "config").mkdir()
        properties = (ROOT / "config" / "server.properties").read_text()
        (folder / "config" / "server.properties").write_text(self._adapt(properties))
        own = folder / "path"
        own.mkdir()
        (own / "penstock").write_text(f'#!/bin/sh\nexec {" ".join(penstock_command())} "$@"\n')
        (own / "penstock").chmod(0o755)
        path = [str(own), str(Path(sys.executable).parent), os.environ["PATH"]]
        self._environment = {
            **penstock_environment(),
            "PATH": os.pathsep.join(path),
            "PENSTOCK_BOOTSTRAP_SERVERS": node.bootstrap,
            "DATA": str(node.log_directories[0]),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self._variables = folder / "variables"
        self._variables.write_text("")

    def _adapt(self, text: str) -> str:
        return text.replace("localhost:9092", self._node.bootstrap).replace(
            "/tmp/kraft-combined-logs", str(self._folder / "kraft-combined-logs")
        )

    def type(self, step: Step) -> str:
        script = f"set -a; . {self._variables}; {self._adapt(step.line)}\nstatus=$?; set +a\n"
        script += f"declare -p KAFKA_CLUSTER_ID > {self._variables} 2>/dev/null; exit $status"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_SECONDS,
        )
        assert done.returncode == step.status, f"{step.line}\n{done.stdout}"
        return done.stdout.replace(str(self._folder / "kraft-combined-logs"), "/tmp/kraft-combined-logs")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[PenstockBroker]:
    broker = PenstockBroker(tmp_path / "node", settings={"group.initial.rebalance.delay.ms": "0"})
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.mark.parametrize("guide", ["quick-start.md", "command-line.md", "pipelines.md"])
def test_a_guide_shows_what_happens(guide: str, node: PenstockBroker, tmp_path: Path) -> None:
    steps = steps_of(guide)
    folder = tmp_path / "shell"
    folder.mkdir()
    for name, program in files_of(guide).items():
        (folder / name).write_text(program)
    shell = Shell(node, folder)
    assert len(steps) > 3

    for step in steps:
        reported = shell.type(step).rstrip("\n")
        assert re.fullmatch(pattern_of(step.shown), reported), (
            f"{step.line}\n{reported}\n-- but shown is --\n" + "\n".join(step.shown)
        )


def test_the_quick_start_serves_as_shown() -> None:
    (line,) = [
        body
        for language, remarks, body in BLOCK.findall((GUIDES / "quick-start.md").read_text())
        if (language, remarks.strip()) == ("sh", "serve")
    ]

    assert line.startswith("$ penstock serve\npenstock ready: node 1 of cluster ")


def test_python_of_the_quick_start_works_as_shown(node: PenstockBroker) -> None:
    (snippet,) = [
        body
        for language, _, body in BLOCK.findall((GUIDES / "quick-start.md").read_text())
        if language == "python"
    ]
    program = snippet.replace("localhost:9092", node.bootstrap)

    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        env=penstock_environment(),
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 0 b'bob' b'{\"item\":\"sluice gate\"}'\n"
