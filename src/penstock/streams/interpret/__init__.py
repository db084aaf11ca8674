"""What a topology means: a plain interpreter, one record at a time, with event time and state in dicts.

It is the reference. `penstock.testing.TopologyTest` runs it, and what Spark computes is held against it; where Kafka
Streams defines a thing, it does the same thing, and a test runs both on the same input. It is deterministic: no clock
but the one it is told, no order of a set anywhere.

`engine` drives records through operators; an operator of each node stands in `stateless`, `tables`, `aggregates`,
`joins`, `suppression` and `processing`; `state` is where tables live.
"""

from penstock.streams.interpret.engine import Interpreter, Output

__all__ = ["Interpreter", "Output"]
