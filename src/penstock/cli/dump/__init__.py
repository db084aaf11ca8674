"""Inspects log files: segments, their indexes, producer snapshots.

    segments     batches and records of a `.log` file or of a checkpoint
    decoders     keys and values: text, numbers, records of coordinators and of the cluster metadata
    indexes      `.index`, `.timeindex`, `.txnindex`, `.snapshot`, and whether they match their segment
    json_form    messages as JSON, as Kafka prints them

Files are only read, even while a node writes to them. `penstock logs dump` and `kafka-dump-log.sh` use it.
"""
