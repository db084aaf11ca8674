"""Decisions about the cluster's metadata: `(image, request) -> Outcome(records, response)`.

One module a theme (`topics`, `partitions`, `configs`, `features`, `brokers`, `producer_ids`), each of plain
functions that look at an image and change nothing. `controller.Controller` runs them one after the other: it
appends their records to the quorum's log and keeps the response back until they are committed.
"""

from penstock.controller.controller import Controller

__all__ = ["Controller"]
