"""Penstock and Apache Kafka side by side: same machine, same run, same bytes, alternating rounds.

Machines are shared and noisy, so no figure stands alone: every line is a ratio of two brokers measured within
moments of each other. `python -m bench --help` says what can be chosen.
"""
