"""The core of the quorum, as scripts: one story per file in `scripts/`. `script_runner` describes the commands.

After a change of behaviour: `REWRITE_SCRIPTS=1 pytest tests/unit/quorum/test_scripts.py`, then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unit.quorum.script_runner import run_script

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    run_script(path, rewrite="REWRITE_SCRIPTS" in os.environ)
