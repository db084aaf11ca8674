"""The errors of the data source. Spark shows little more than the message, so the message says everything."""

from __future__ import annotations


class SparkError(Exception):
    """An error of the data source `penstock`."""


class BadOption(SparkError, ValueError):
    """An option that is unknown, has a bad value, or lacks another option that it needs."""


class DataLost(SparkError):
    """Records that a query should read do not exist any more. Names topic, partition and offsets."""


class CannotRead(SparkError):
    """The cluster was unavailable for too long, or refused a read."""


class PoisonRecord(SparkError):
    """A key or value that does not match its format and schema. Names topic, partition and offset."""


class UnsupportedSpark(SparkError):
    """The installed Spark lacks something that Penstock needs. Names the versions that have it."""


class BadCheckpoint(SparkError):
    """The checkpoint belongs to another query."""
