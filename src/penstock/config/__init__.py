"""Every setting, declared once: its name, type, default, bounds, documentation and whether it changes at run time.

One declaration (`declare.Setting`, in the tables of `tables/`) is the validator of `server.properties`, the text
of `penstock settings` and the response to DescribeConfigs. Names, types, defaults and bounds are those of Apache
Kafka 4.3, so that a file written for it works unchanged; the descriptions are our own. If a default differs, the
declaration says why.

- `broker.BrokerSettings`: the static and dynamic settings of one node;
- `topic.TopicSettings`, `group.GroupSettings`: the overrides of one topic or group over the broker's settings;
- `alter`: checks a change by IncrementalAlterConfigs or AlterConfigs before it is recorded;
- `describe`: the entries of a DescribeConfigs response;
- `properties`: the file format.

Nothing here opens a socket or a file, reads a clock, or knows the wire protocol. Every start of a broker imports this
package, so the import must take only a few milliseconds.
"""
