"""Benchmarks of Penstock and Apache Kafka: same machine, same run, same bytes, alternating rounds.

Machines are shared and noisy, so every result is a ratio of two brokers that are measured within moments of each other.
`python -m bench --help` lists the options.
"""
