"""The metadata log and its quorum: KRaft as a core without I/O (`core`) and the thin driver round it
(`driver`).

The core is told what happened and says what to do next; the driver saves, appends and syncs, in that order.
Nothing here knows what the records mean, and nothing else appends to the metadata log.
"""
