"""A SPARK_HOME without Spark's zip of Python sources, so that workers use the installed ones.

pip's PySpark contains its Python sources twice: installed, and as a zip that Spark puts first on the path of its Python
processes. Python does not cache bytecode of a zip, so every process compiles what it imports: 0.45 s of a core, for six
kinds of processes at the first query and for one of every stream. With links to all of Spark except the zip, they use
the compiled, installed modules, and a stream starts in half the time.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

VARIABLE = "SPARK_HOME"
PYTHON_FOLDER = "python"
"""It has the zip, and nothing else that Spark's own processes need."""


def use_installed_python() -> None:
    """Set SPARK_HOME for a JVM that this process starts with workers on this machine. A user's value stays."""
    if VARIABLE in os.environ or os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return
    import pyspark

    installed = Path(pyspark.__path__[0])
    # pip's PySpark has its jars next to it; others are found by SPARK_HOME or by Spark's scripts.
    if (installed / "jars").is_dir():
        folder = tempfile.mkdtemp(prefix="penstock-spark-home-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # it holds only links
        link_home(installed, Path(folder))
        os.environ[VARIABLE] = folder


def link_home(installed: Path, home: Path) -> None:
    """Create links in `home` to all folders of an installed PySpark that belong to Spark."""
    for each in sorted(installed.iterdir()):
        if each.is_dir() and each.name != PYTHON_FOLDER and not (each / "__init__.py").exists():
            (home / each.name).symlink_to(each)
