"""Log compaction: keeps the last record of each key (`cleanup.policy=compact`).

`eligibility` decides which logs need it, `compaction` rewrites segments in a worker, `replacement` puts the new ones in
their place, and `cleaner` drives all of it. See docs/decisions/0008-compaction.md.
"""
