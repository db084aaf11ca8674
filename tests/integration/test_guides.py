"""The Python code in the guides runs as written.

The blocks of one guide form one program, from top to bottom, with its own broker. pytest runs blocks with tests.
Only addresses are replaced. Blocks marked `python not-run` are skipped.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.brokers import ROOT, PenstockBroker, penstock_environment
from harness.registry import serve_registry

GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCUMENTED_ADDRESSES = ("localhost:9092", "127.0.0.1:9092")
DOCUMENTED_REGISTRY = "http://localhost:8081"
WAIT_SECONDS = 240.0  # a guide with Spark takes a minute, and longer on a busy machine

pytestmark = pytest.mark.penstock_only("its own documents")


def blocks(guide: Path, *, of_tests: bool) -> list[str]:
    found = BLOCK.findall(guide.read_text())
    return [block for block in found if ("def test_" in block) == of_tests]


def programs() -> list[Path]:
    return [guide for guide in GUIDES if blocks(guide, of_tests=False)]


def suites() -> list[Path]:
    return [guide for guide in (ROOT / "README.md", *GUIDES) if blocks(guide, of_tests=True)]


@pytest.mark.parametrize("guide", programs(), ids=lambda guide: guide.stem)
def test_the_code_of_a_guide_runs(guide: Path, tmp_path: Path) -> None:
    # A group with one member need not wait for others.
    broker = PenstockBroker(tmp_path / "broker", settings={"group.initial.rebalance.delay.ms": "0"})
    broker.start()
    try:
        program = "\n".join(blocks(guide, of_tests=False))
        for address in DOCUMENTED_ADDRESSES:
            program = program.replace(address, broker.bootstrap)
        with serve_registry() as registry:
            program = program.replace(DOCUMENTED_REGISTRY, registry.url)
            run([sys.executable, "-X", "dev", "-W", "error", "-c", program], tmp_path)
    finally:
        broker.close()
    broker.check_output()


@pytest.mark.parametrize("guide", suites(), ids=lambda guide: guide.stem)
def test_the_tests_in_a_guide_pass(guide: Path, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(guide, of_tests=True)):
        (tmp_path / f"test_{number}.py").write_text(block)

    run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)], tmp_path)


def run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_SECONDS, cwd=folder, env=penstock_environment()
    )
    assert done.returncode == 0, done.stdout + done.stderr
