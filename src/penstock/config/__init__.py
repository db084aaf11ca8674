"""Every setting, declared once: its name, type, default, bounds, documentation and whether it changes at run time.

One declaration (`declare.Setting`, in the tables of `tables/`) is the validator of `server.properties`, the text
of `penstock settings` and the answer to DescribeConfigs. Names, types, defaults and bounds are those of Apache
Kafka 4.3, so that a file written for it is read unchanged; the words are ours. Where a default differs, the
declaration says why.

- `broker.BrokerSettings`: what one node was told, in its file and at run time;
- `topic.TopicSettings`, `group.GroupSettings`: one topic's or group's overrides over what the broker says;
- `alter`: a change that IncrementalAlterConfigs or AlterConfigs asks for, checked before it is recorded;
- `describe`: the entries of a DescribeConfigs answer;
- `properties`: the file format.

Nothing here opens a socket or a file, reads a clock, or knows the wire protocol. Importing all of it costs a few
milliseconds, because every start of a broker pays for it.
"""
