"""A function over Arrow batches that runs in the reading task: the internal option `penstock.transform`.

Rows that a pipeline would drop or aggregate at once need not travel to the JVM. The function takes an iterator of
batches with the source's columns, and yields batches in the schema that was given to Spark. The option's value is the
pickled function.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.spark.internals import pickle_by_value

Transform = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

OPTION = "penstock.transform"


def pack(transform: Transform) -> str:
    """The option's value."""
    return base64.b64encode(pickle_by_value(transform)).decode("ascii")


def unpack(given: str) -> Transform:
    transform: Transform = pickle.loads(base64.b64decode(given))
    return transform
