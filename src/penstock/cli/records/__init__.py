"""Conversion between records and text.

    line_reader     lines (`key<TAB>value` or JSON) to records
    printers        records to the output of `penstock consume`; `formats` converts keys and values
    formatters      records to the output of Kafka's console consumer
    deserializers   Kafka's deserializers

Nothing here talks to a cluster.
"""
