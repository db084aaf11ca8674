"""A Spark home whose Python is the one that is installed.

pip's PySpark holds its Python sources twice: installed, and as a zip that Spark puts first on the path of its Python
processes. Python keeps nothing of what it compiles out of a zip, so each of them compiles anew what it imports: 0.45 s
of a core, for six kinds of processes that a first query starts and for one of every stream. A home that has links to
all of Spark but the zip leaves them with what is installed, compiled already: a stream starts in half the time.
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
"""What has the zip, and nothing else that Spark's own processes need."""


def use_installed_python() -> None:
    """For a JVM that this process is going to start, with workers on this machine. What the user set stays."""
    if VARIABLE in os.environ or os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return
    import pyspark

    installed = Path(pyspark.__path__[0])
    # Pip's has its jars beside it; another one is found by the variable, or by Spark's own scripts.
    if (installed / "jars").is_dir():
        folder = tempfile.mkdtemp(prefix="penstock-spark-home-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # links alone: what they lead to stays
        link_home(installed, Path(folder))
        os.environ[VARIABLE] = folder


def link_home(installed: Path, home: Path) -> None:
    """Links in `home` to all folders of an installed PySpark that are Spark's own."""
    for each in sorted(installed.iterdir()):
        if each.is_dir() and each.name != PYTHON_FOLDER and not (each / "__init__.py").exists():
            (home / each.name).symlink_to(each)
