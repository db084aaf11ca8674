"""What a query is told when it cannot go on. Spark shows the words and little else, so they say all."""

from __future__ import annotations


class SparkError(Exception):
    """Of the data source `penstock`."""


class BadOption(SparkError, ValueError):
    """An option that is unknown, lacks a partner or has a value that does not serve."""


class DataLost(SparkError):
    """Something that a query was to read is not there any more. Named are topic, partition and offsets."""


class CannotRead(SparkError):
    """The cluster does not give what a query is to read: it is away for too long, or refuses."""


class PoisonRecord(SparkError):
    """A record whose key or value is not what its format and schema say. Named are topic, partition and offset."""


class BadCheckpoint(SparkError):
    """A checkpoint that is of another query: what it tells is not where this one stopped."""
