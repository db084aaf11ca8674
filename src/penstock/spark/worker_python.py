"""Checks that Spark's Python workers can import this package, before a task fails with ModuleNotFoundError.

A plain `SparkSession` starts its workers with the `python3` of the PATH unless `PYSPARK_PYTHON` was set before it
started. That is often another Python than the one that runs the program. `penstock.spark.session` sets it.

The check costs nothing if workers run this very Python and the package is installed in it; otherwise it starts that
Python once. It rejects only what is certain to fail: workers on this machine that cannot find the package. It says
nothing about workers on other machines, Spark Connect, or packages that travel with the job (pyFiles, archives).
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.spark.errors import SparkError
from penstock.spark.internals import has_python_files, jvm_environment_variable
from penstock.spark.settings import Place, place_of
from penstock.spark.shipping import is_installed

if TYPE_CHECKING:
    from pyspark import SparkContext

PROBE_SECONDS = 20.0  # a busy machine starts Python slowly; beyond that the check gives up and says nothing
NOT_FOUND = 3  # an exit code that Python itself does not use
PROBE = f"""
import sys
try:
    import penstock.spark
except ModuleNotFoundError as error:
    sys.exit({NOT_FOUND} if (error.name or "").partition(".")[0] == "penstock" else 0)
"""


def check_workers(context: SparkContext) -> None:
    """Raise `SparkError` if the workers of this context cannot import the package."""
    if place_of(context.master or "") is not Place.LOCAL or _carries_packages(context):
        return
    if context.pythonExec == sys.executable and is_installed():
        return
    environment = _environment(context)
    python = shutil.which(context.pythonExec, path=environment.get("PATH"))
    if python is None:
        return
    if not _finds_package(python, tuple(sorted(environment.items()))):
        raise SparkError(
            f"Spark's Python workers run {python}, which cannot import penstock; this program runs {sys.executable}."
            f" Set PYSPARK_PYTHON={sys.executable} in the environment before the session starts (with spark-submit:"
            f" --conf spark.pyspark.python={sys.executable}), install penstock for {python}, or ship it with"
            " spark.submit.pyFiles. penstock.spark.session() starts a session with the right Python"
        )


def _carries_packages(context: SparkContext) -> bool:
    return has_python_files(context) or bool(context.getConf().get("spark.archives", ""))


def _environment(context: SparkContext) -> dict[str, str]:
    """The environment of workers: inherited from the JVM, plus the session's settings. The JVM has this process's
    environment at the time it was started."""
    added: Mapping[str, str] = context.environment
    path = [added.get("PYTHONPATH", ""), jvm_environment_variable(context, "PYTHONPATH")]
    own = {
        "PATH": jvm_environment_variable(context, "PATH"),
        "PYTHONPATH": os.pathsep.join(each for each in path if each),
    }
    return os.environ | dict(added) | own


@functools.cache
def _finds_package(python: str, environment: tuple[tuple[str, str], ...]) -> bool:
    """False only if it is certain."""
    command = [python, "-c", PROBE]
    try:
        ended = subprocess.run(
            command, env=dict(environment), capture_output=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    return ended.returncode != NOT_FOUND
