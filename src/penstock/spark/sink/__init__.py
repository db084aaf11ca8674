"""The sink: writes rows to topics, at least once, or exactly once by two-phase commit with a durable decision.

`decision` defines what a log of claims and decisions means and what a batch has to do; `protocol` has the steps of a
task, a commit, an abort and the end of a run; neither does I/O. `decisions` is the topic, `transactions` the
cluster, `rows` the checks of columns, `writer` the classes that Spark calls. `cleanup` ends open transactions when a
query terminates. `batch_write` identifies a batch write, `finishing` ends what a dead driver left open, `messages`
holds error messages.
"""

DECISIONS_TOPIC = "__penstock_spark"
"""Where sinks record which run holds them and what was decided: see `decisions`. An internal topic, so no
`subscribePattern` matches it."""

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"

PREFIX = "penstock"
"""The default prefix of transactional ids."""
