"""Spark's daemon of Python workers, with the modules that our workers need imported before it forks.

Spark runs tasks in processes that this daemon forks. A forked worker imports pyarrow, the worker's module and the data
source: 0.5 s of a core for every task that finds no idle worker. Imported here once, they cost a fork nothing.
(Planning and committing on the driver use daemons of Spark's own, which no setting replaces.)

Spark imports late on purpose: a process with threads must not fork carelessly. The modules here start no thread that a
child would miss (pyarrow's allocator has one, and handles forks itself). Clients, which run a thread, are created only
in workers. Nothing here may open a connection.

The setting `spark.python.daemon.module` names this module; see `sessions`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys

from penstock.spark.internals import WORKER_MODULE, run_worker_daemon

MODULES = (
    "pyarrow.compute",
    WORKER_MODULE,
    "penstock.spark.source",
    "penstock.spark.decoding.poison",
    "penstock.spark.sink.writer",
)


def preload() -> None:
    for module in MODULES:
        # If a module fails or does not exist in another version of Spark, the worker that needs it reports the error.
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # so that a worker's garbage collector does not copy the pages it shares with this process


def add_working_directory() -> None:
    """Append the working directory to the module path. Python would search it first, and take a `copy.py` for its own
    module, unless PYTHONSAFEPATH is set, as it is for pipelines."""
    if sys.flags.safe_path:
        sys.path.append(os.getcwd())


if __name__ == "__main__":
    add_working_directory()
    preload()
    run_worker_daemon()
