"""The quorum of the metadata log: KRaft as a core without I/O (`core`) and its driver (`driver`).

The core gets events and returns actions; the driver saves, appends and syncs, in that order. Nothing here knows the
content of records, and nothing else appends to the metadata log.
"""
