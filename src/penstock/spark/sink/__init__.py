"""The sink: rows into topics, at least once, or exactly once by two-phase commit with a durable decision.

`decision` says what a log of claims and decisions means and what a batch has to do; `protocol` walks through the steps
of a task, of a commit, of an abort and of a run's end; neither does I/O. `decisions` is the topic, `transactions` the
cluster, `rows` what columns must be, `writer` what Spark calls, and `retiring` what the driver does when a query ends.
`batch_write` identifies a batch write, `finishing` ends what a dead driver has left, `messages` holds error messages.
"""

DECISIONS_TOPIC = "__penstock_spark"
"""Where sinks note who holds them and what was decided: see `decisions`. Not the user's, so no pattern finds it."""

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"

PREFIX = "penstock"
"""What transactional ids begin with where nothing else is said."""
