"""Committed offsets of all types of groups.

`offsets` decides OffsetCommit, OffsetFetch and OffsetDelete, `transactional_commit` TxnOffsetCommit. `table` and
`pending` hold the state, `expiration` removes old offsets.
"""
