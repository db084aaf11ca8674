"""Transactions as a partition's log sees them: which are undecided, which were aborted, and who may begin one.

A transaction begins in a partition with the first batch that its producer writes there and ends with a marker, a
control batch that its coordinator has written. What has to be known of it beside `producer_state` is here:

    unstable    transactions that readers of committed data must wait for
    aborted     those whose records they must skip: the `.txnindex` of every segment
    guards      the permission to begin one, which an end takes back
    batches     what a batch means to all of them
"""
