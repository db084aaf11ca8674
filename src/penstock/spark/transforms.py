"""A function that runs in the reading task itself, over Arrow batches: the internal option `penstock.transform`.

Rows that a pipeline would drop or fold at once need not travel to the JVM. The function takes an iterator of batches
with the source's columns, and yields batches in the schema that was given to Spark; the option's text is the
pickled function.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator

import pyarrow as pa

Transform = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

OPTION = "penstock.transform"


def pack(transform: Transform) -> str:
    """The option's value."""
    from pyspark import cloudpickle

    pickled: bytes = cloudpickle.dumps(transform)  # type: ignore[no-untyped-call]
    return base64.b64encode(pickled).decode("ascii")


def unpack(given: str) -> Transform:
    transform: Transform = pickle.loads(base64.b64decode(given))
    return transform
