"""The sink: rows into topics, at least once, or exactly once by two-phase commit with a durable decision.

`decision` says what a log of claims and decisions means and what a batch has to do; `protocol` walks through the steps
of a task, of a commit and of an abort; neither does I/O. `decisions` is the topic, `transactions` the cluster, `rows`
what columns must be, and `writer` what Spark calls.
"""

DECISIONS_TOPIC = "__penstock_spark"
"""Where sinks note who holds them and what was decided: see `decisions`. Not the user's, so no pattern finds it."""
