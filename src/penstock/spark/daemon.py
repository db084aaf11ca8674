"""Spark's own daemon of Python workers, with what every worker of ours needs imported before it forks.

Spark runs tasks in processes that this daemon forks, and a forked worker begins by importing pyarrow, the worker's
module and the data source: 0.5 s of a core, for every task that meets no idle worker. Imported here once, they cost a
fork nothing. (Planning and committing on the driver have daemons of Spark's own, which no setting replaces.)

Spark imports late on purpose: a process that has threads must not fork without care. What is imported here starts none
that a child could miss (pyarrow's allocator has one, and it looks after forks itself); a client, whose loop is a
thread, is only ever made in a worker. Nothing here may connect to anything.

Named by the setting `spark.python.daemon.module`; see `sessions`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys

from pyspark.daemon import manager

MODULES = (
    "pyarrow.compute",
    "pyspark.worker",
    "penstock.spark.source",
    "penstock.spark.decoding.poison",
    "penstock.spark.sink.writer",
)


def preload() -> None:
    for module in MODULES:
        # One that fails, or that another version of Spark does not have, is for the worker that needs it to tell of.
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # so that a worker's collections leave the pages alone that it shares with this process


def find_modules_here() -> None:
    """Those in the working directory, behind all others. Python would look there first, and take a `copy.py` for its
    own, unless it is told not to (PYTHONSAFEPATH), as for pipelines."""
    if sys.flags.safe_path:
        sys.path.append(os.getcwd())


if __name__ == "__main__":
    find_modules_here()
    preload()
    manager()
