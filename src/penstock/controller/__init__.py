"""Decisions about the metadata of the cluster: `(image, request) -> Outcome(records, response)`.

One module per subject (`topics`, `partitions`, `configs`, `features`, `brokers`, `producer_ids`), with functions that
read an image and change nothing. `controller.Controller` runs them one after the other: it appends their records to the
metadata log and returns the response when they are committed.
"""

from penstock.controller.controller import Controller

__all__ = ["Controller"]
