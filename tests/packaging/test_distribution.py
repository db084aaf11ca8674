"""The artifacts of `make dist` work outside the repository: broker, client, Kafka's script names, pytest fixture.

Each artifact is installed into an empty environment. The sdist compiles the kernel there, as for a user without a
wheel for the platform.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers import ROOT
from penstock.cli.kafka import TOOLS

pytestmark = pytest.mark.timeout(1200)  # for a compiler and a package index

NOT_SOURCES = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "*.so")
OPTIONAL_PACKAGES = {"pyspark", "pyarrow", "pandas", "fastavro", "confluent-kafka"}

CLIENT = """
import sys
from penstock import Consumer, Producer

with Producer(sys.argv[1]) as producer:
    producer.send("orders", b"one").result(timeout=60)
with Consumer("orders", bootstrap_servers=sys.argv[1], auto_offset_reset="earliest") as consumer:
    print(next(iter(consumer)).value.decode())
"""

KERNEL = """
from pathlib import Path
from penstock.records import kernel, producing

print(Path(kernel.__file__).parent)
"""

FIXTURE_TEST = """
def test_orders(penstock):
    assert penstock.producer().send("orders", b"one").result(timeout=60).offset == 0
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources") / "penstock"
    shutil.copytree(ROOT, folder, ignore=NOT_SOURCES)
    return folder


@pytest.fixture(scope="module")
def artifacts(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    target = tmp_path_factory.mktemp("dist")
    _run([sys.executable, "-m", "build", "--outdir", str(target), str(sources)])
    (sdist,) = target.glob("*.tar.gz")
    (wheel,) = target.glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def environment(
    request: pytest.FixtureRequest, artifacts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The `bin` folder of an environment with the artifact, pytest, and their dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    _run([sys.executable, "-m", "venv", str(folder)])
    scripts = folder / "bin"
    _run([scripts / "pip", "install", "--disable-pip-version-check", artifacts[request.param], "pytest"])
    return scripts


@pytest.fixture
def broker(environment: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a broker that the installed `penstock serve` runs."""
    command = [environment / "penstock", "serve", "--set", "listeners=PLAINTEXT://127.0.0.1:0"]
    command += ["--set", f"log.dirs={tmp_path / 'data'}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=_clean()) as process:
        try:
            assert process.stdout is not None
            ready = next(line for line in process.stdout if line.startswith("penstock ready"))
            yield ready.split("PLAINTEXT://")[1].split()[0].rstrip(",;")
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(60)
    assert status == 0


def test_an_installed_artifact_has_types_and_a_kernel_and_no_optional_packages(
    environment: Path, tmp_path: Path
) -> None:
    folder = Path(_run([environment / "python", "-c", KERNEL], cwd=tmp_path).strip())
    packages = json.loads(_run([environment / "pip", "list", "--format", "json"], cwd=tmp_path))

    stubs = {stub.name for stub in (ROOT / "src" / "penstock" / "records").glob("*.pyi")}
    assert stubs
    assert {stub.name for stub in folder.glob("*.pyi")} == stubs
    assert (folder.parent / "py.typed").exists()
    assert list(folder.glob("*.p[yx][xd]")) == []
    assert not OPTIONAL_PACKAGES & {package["name"].lower() for package in packages}


def test_an_installed_broker_serves_the_installed_client_and_kafkas_scripts(
    environment: Path, broker: str, tmp_path: Path
) -> None:
    assert _run([environment / "python", "-c", CLIENT, broker], cwd=tmp_path) == "one\n"
    topics = _run([environment / "kafka-topics.sh", "--bootstrap-server", broker, "--list"], cwd=tmp_path)
    assert "orders" in topics.split()


def test_the_pytest_fixture_works_where_penstock_is_installed(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(FIXTURE_TEST)
    report = _run([environment / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path)
    assert "1 passed" in report


def test_a_build_without_a_compiler_fails_and_names_the_package_to_install(
    sources: Path, tmp_path: Path
) -> None:
    """It used to succeed, and left a broker that was many times slower."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(sources)],
        env={**_clean(), "CC": str(tmp_path / "no-compiler")},
        capture_output=True,
        text=True,
    )

    assert done.returncode != 0
    assert "no-compiler" in done.stdout + done.stderr
    assert "apt-get install gcc" in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_kafka_tool_has_a_script(environment: Path) -> None:
    missing = [name for name in TOOLS if not (environment / f"{name}.sh").exists()]
    assert missing == []


def test_the_list_of_scripts_is_the_list_of_tools() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert set(scripts) == {"penstock", *(f"{name}.sh" for name in TOOLS)}


def _run(command: list[str | Path], cwd: Path | None = None) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=_clean(), capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _clean() -> dict[str, str]:
    """The environment without variables that lead Python back into the repository."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
