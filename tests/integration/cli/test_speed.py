"""A command imports only what it needs, so that it starts fast. `make bench` measures it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.brokers import PenstockBroker, penstock_environment

pytestmark = pytest.mark.penstock_only("tests Penstock's command line")

HEAVY = {
    "rich",
    "argparse",
    "difflib",
    "pyarrow",
    "pandas",
    "numpy",
    "multiprocessing",
    "email",
}


@pytest.mark.parametrize(
    "line",
    [
        ["topics", "--list"],
        ["topics", "list"],
        ["topics", "list", "--json"],
        ["kafka-topics", "--list"],
        ["produce", "quick", "x"],
        ["consume", "quick", "--json"],
        ["groups", "list"],
    ],
    ids=" ".join,
)
def test_a_command_imports_nothing_heavy(line: list[str], node: PenstockBroker) -> None:
    program = (
        f"import sys; from penstock.cli.main import main; status = main({line!r});"
        f"print(status, sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    environment = {**penstock_environment(), "PENSTOCK_BOOTSTRAP_SERVERS": node.bootstrap}

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)

    assert done.stderr.splitlines()[-1:] == ["0 []"], done.stderr


def test_listing_topics_imports_no_part_of_the_broker(node: PenstockBroker) -> None:
    program = (
        "import sys; from penstock.cli.main import main; main(['topics', '--list']);"
        "print(sorted({name.split('.')[1] for name in sys.modules if name.startswith('penstock.')}), file=sys.stderr)"
    )
    environment = {**penstock_environment(), "PENSTOCK_BOOTSTRAP_SERVERS": node.bootstrap}

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)

    assert done.stderr.splitlines()[-1] == str(["cli", "client", "config", "net", "protocol", "runtime"])
