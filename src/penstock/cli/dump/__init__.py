"""What stands in the files of a log, for people: segments, their indexes, snapshots of producers.

    segments     batches and records of a `.log` file or of a checkpoint
    decoders     what keys and values mean: text, numbers, records of coordinators and of the cluster's metadata
    indexes      `.index`, `.timeindex`, `.txnindex`, `.snapshot`, and whether they agree with their segment
    json_form    declared messages as Kafka writes them in JSON

Files are only read, also while a node writes to them. `penstock logs dump` and `kafka-dump-log.sh` print what is
found here.
"""
