"""Load for a cluster, measured: what `penstock perf` and Kafka's performance tools run.

    measuring      latencies, windows and sums; decides nothing about how they look
    producing      as many records as the producer takes, or so many a second
    consuming      as many records as there are
    end_to_end     one record at a time, there and back
    transacting    one transaction after another

Each of them tells of every window of its work through a function that it is given, and returns the sum.
"""
