"""Records as text: how lines become records, and records lines.

    line_reader     `key<TAB>value` and JSON into records, in Kafka's words and ours
    formatters      records into lines, as Kafka's console consumer prints them
    deserializers   what Kafka calls the ways in which keys and values are read

Nothing here talks to a cluster.
"""
