"""Transactions in a partition's log: open ones, aborted ones, and the right to begin one.

A transaction begins in a partition with its producer's first batch there, and ends with a marker, a control batch that
its coordinator writes. `producer_state` uses:

    unstable    transactions that read_committed consumers must wait for
    aborted     transactions whose records they must skip: the `.txnindex` of every segment
    guards      verification guards: the right to begin a transaction, which a marker revokes
"""
