"""Ships this package to executors, as an archive that Spark unpacks there.

`spark.submit.pyFiles` does not work: Python cannot load compiled modules out of a zip, so the kernel would be missing.
`spark.archives` unpacks. A worker prefers the shipped package over an installed one, so that both ends have the same
version. Its dependencies (pyarrow, uvloop, ...) must be installed on the workers, like those of pyspark.
"""

from __future__ import annotations

import os
import site
import sys
import tempfile
import zipfile
from pathlib import Path

import penstock

FOLDER = "penstock-package"  # in the working directory of executors
KEPT = frozenset({".py", ".so", ".properties", ".typed"})


def package_root() -> Path:
    """The folder from which `penstock` is imported."""
    return Path(penstock.__path__[0]).resolve().parent


def make_archive(folder: Path | None = None) -> Path:
    """A zip of the package, in the given folder, or in a new one that is deleted when this process ends."""
    if folder is None:
        _keep(temporary := tempfile.TemporaryDirectory(prefix="penstock-spark-"))
        folder = Path(temporary.name)
    archive = folder / f"{FOLDER}.zip"
    root = package_root()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
        for file in sorted((root / "penstock").rglob("*")):
            if file.suffix in KEPT and "__pycache__" not in file.parts:
                packed.write(file, file.relative_to(root))
    return archive


def python_path(existing: str | None, *, ahead: str = "") -> str:
    """A PYTHONPATH with this package before the existing entries."""
    parts = [part for part in (ahead, _root_unless_installed(), *(existing or "").split(os.pathsep)) if part]
    return os.pathsep.join(dict.fromkeys(parts))


def is_installed() -> bool:
    """Whether every process of this Python finds the package, whatever its PYTHONPATH."""
    installed = {os.path.realpath(folder) for folder in (*site.getsitepackages(), site.getusersitepackages())}
    return str(package_root()) in installed


def _root_unless_installed() -> str:
    return "" if is_installed() else str(package_root())


_kept: list[tempfile.TemporaryDirectory[str]] = []


def _keep(folder: tempfile.TemporaryDirectory[str]) -> None:
    """Keep it until the process ends: Spark serves the file to executors that start later, too."""
    _kept.append(folder)


def archive_settings(archive: Path, existing_archives: str | None) -> dict[str, str]:
    """Settings that make executors unpack the archive and their Python workers import from it."""
    named = f"{archive}#{FOLDER}"
    return {
        "spark.archives": f"{existing_archives},{named}" if existing_archives else named,
        "spark.executorEnv.PYTHONPATH": python_path(os.environ.get("PYTHONPATH"), ahead=f"./{FOLDER}"),
        "spark.executorEnv.PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
