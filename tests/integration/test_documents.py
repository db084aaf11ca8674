"""The commands in the documents work as written, and their links are valid.

Only addresses and folders are replaced: the default port may be in use, and tests write only to temporary folders.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers import (
    ROOT,
    PenstockBroker,
    free_port,
    penstock_command,
    penstock_environment,
    tool,
)
from penstock.testing.cluster import free_ports

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DOCUMENTED_ADDRESS = "127.0.0.1:9092"
PENSTOCK = "penstock "
WAIT_SECONDS = 60.0

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

pytestmark = pytest.mark.penstock_only("its own documents")


def commands(start: str) -> list[str]:
    """Lines of the documents' shell snippets that begin with `start`, without their comments."""
    lines = [
        line.split("  #")[0].strip()
        for document in DOCUMENTS
        for language, block in FENCE.findall(document.read_text())
        if not language
        for line in block.splitlines()
    ]
    return sorted({line for line in lines if line.startswith(start)})


def python_snippets() -> list[str]:
    text = (ROOT / "README.md").read_text()
    return [block for language, block in FENCE.findall(text) if language == "python"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockBroker]:
    broker = PenstockBroker(tmp_path_factory.mktemp("documents"))
    broker.start()
    run_shell(f"{tool('kcat')} -b {broker.bootstrap} -t events -P <<< first")
    yield broker
    broker.close()


def run_shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=WAIT_SECONDS)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_point_to_existing_files(document: Path) -> None:
    targets = [target.partition("#")[0] for target in LINK.findall(document.read_text())]
    local = [target for target in targets if target and "://" not in target]

    assert [target for target in local if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_point_to_existing_headings(document: Path) -> None:
    targets = [target.split("#") for target in LINK.findall(document.read_text()) if "://" not in target]
    missing = [
        target
        for target in targets
        if len(target) == 2
        and target[1] not in anchors(document.parent / target[0] if target[0] else document)
    ]

    assert missing == []


def anchors(document: Path) -> set[str]:
    """The names by which GitHub links to the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_named_make_targets_exist() -> None:
    named = {line.split()[1] for line in commands("make ")}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert named
    assert named <= targets


@pytest.mark.parametrize("line", commands("kcat "))
def test_kcat_commands_work(line: str, broker: PenstockBroker) -> None:
    done = run_shell(line.replace(DOCUMENTED_ADDRESS, broker.bootstrap))

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", [*commands(PENSTOCK + "topics"), *commands("bin/kafka-console-consumer.sh")])
def test_penstock_commands_work(line: str, broker: PenstockBroker) -> None:
    line = line.replace(PENSTOCK, f"{shlex.join(penstock_command())} ")

    done = subprocess.run(
        ["bash", "-c", line.replace(DOCUMENTED_ADDRESS, broker.bootstrap)],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        env={**penstock_environment(), "PENSTOCK_BOOTSTRAP_SERVERS": broker.bootstrap},
        cwd=ROOT,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("snippet", python_snippets())
def test_python_snippets_of_the_readme_work(snippet: str, broker: PenstockBroker) -> None:
    command = [sys.executable, "-c", snippet.replace(DOCUMENTED_ADDRESS, broker.bootstrap)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", commands(PENSTOCK + "settings"))
def test_settings_commands_work(line: str) -> None:
    arguments = shlex.split(line.removeprefix(PENSTOCK))

    done = subprocess.run(
        [*penstock_command(), *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        env=penstock_environment(),
    )

    assert done.returncode == 0, done.stderr
    assert arguments[-1] in done.stdout


@pytest.mark.parametrize("line", commands(PENSTOCK + "serve"))
def test_serve_commands_work(line: str, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "server.properties").write_text("num.partitions=3\n")
    arguments = shlex.split(line.removeprefix(PENSTOCK))
    if "--nodes" in arguments:
        arguments[arguments.index("--data") + 1] = f"{tmp_path}/data"
        arguments += ["--port", str(free_ports(3))]
    else:
        elsewhere = [f"listeners=PLAINTEXT://127.0.0.1:{free_port()}", f"log.dirs={tmp_path}/data"]
        arguments += [argument for setting in elsewhere for argument in ("--set", setting)]

    process = subprocess.Popen(
        [*penstock_command(), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=penstock_environment(),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("penstock ready")
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()
