"""The scripts of `bin/`: each leads to its tool, from anywhere."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.brokers import ROOT, penstock_environment
from penstock.cli import kafka
from penstock.cli.main import main

BIN = ROOT / "bin"


def test_every_tool_has_a_script_and_every_script_a_tool() -> None:
    scripts = {path.name for path in BIN.glob("*.sh")}

    assert scripts == {f"{tool}.sh" for tool in kafka.TOOLS}
    assert all(os.access(BIN / script, os.X_OK) for script in scripts)
    assert all(f" {script.removesuffix('.sh')} " in (BIN / script).read_text() for script in scripts)


@pytest.mark.parametrize("tool", sorted(kafka.TOOLS))
def test_every_tool_can_be_run(tool: str) -> None:
    """Its module exists; what it does is tested elsewhere."""
    assert kafka.is_tool(f"{tool}.sh")
    kafka.tool_of(tool)


def test_a_script_works_from_any_directory_and_through_links(tmp_path: Path) -> None:
    link = tmp_path / "storage"
    link.symlink_to(BIN / "kafka-storage.sh")

    done = subprocess.run(
        [link, "random-uuid"], cwd="/", capture_output=True, text=True, check=True, env=penstock_environment()
    )

    assert len(done.stdout.strip()) == 22


def test_a_missing_installation_names_the_command_to_run(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "penstock"
    script.write_bytes((BIN / "penstock").read_bytes())
    script.chmod(0o755)
    without_python = tmp_path / "path"
    without_python.mkdir()
    for program in ("dirname", "readlink"):
        (without_python / program).symlink_to(Path("/usr/bin") / program)

    done = subprocess.run(
        ["/bin/sh", script, "version"], capture_output=True, text=True, env={"PATH": str(without_python)}
    )

    assert done.returncode == 1
    assert "make -C" in done.stderr
    assert "install" in done.stderr


def test_no_zookeeper_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zookeeper-server-start.sh", "config/zookeeper.properties"]) == 0
    assert main(["zookeeper-server-stop"]) == 0
    assert capsys.readouterr().out.count("ZooKeeper is not needed") == 2


@pytest.mark.parametrize("tool", ["connect-standalone", "connect-distributed", "connect-mirror-maker"])
def test_services_to_come_say_so(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([tool, "config/connect-standalone.properties"]) == 1
    assert "not supported yet" in capsys.readouterr().err
