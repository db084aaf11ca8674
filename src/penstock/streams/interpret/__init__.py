"""The meaning of a topology: a plain interpreter, one record at a time, with event time and state in dicts.

It is the reference. `penstock.testing.TopologyTest` runs it, and Spark's results are compared with it. Where Kafka
Streams defines a behaviour it does the same, and a test runs both on the same input. It is deterministic: it uses no
clock of its own and no order of a set.

`engine` sends records through operators. The operators are in `stateless`, `tables`, `aggregates`, `joins`,
`suppression` and `processing`; `state` holds the tables.
"""

from penstock.streams.interpret.engine import Interpreter, Output

__all__ = ["Interpreter", "Output"]
