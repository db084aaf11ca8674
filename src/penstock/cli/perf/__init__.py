"""Load tests, for `penstock perf` and Kafka's performance tools.

    measurement    latencies, windows and totals
    producer       produce as fast as possible, or at a rate
    consumer       consume as fast as possible
    end_to_end     one record at a time, produced and consumed
    transactions   one transaction after another
    report         progress and results of `penstock perf`

A test reports each window of its work to a function argument, and returns the total.
"""
