"""Partitions as leaders and followers.

`table.PartitionTable` has the partitions of this node and follows the cluster's metadata; a `partition.Partition` is
one of them; `validation` checks what producers write; `purgatory` has the requests that wait for an offset or for
bytes; `followers` is what a leader knows of its followers.

Followers: `fetcher` decides what to fetch and what to do with it, `fetchers` runs it, `truncating` and `offset_reset`
help where logs differ. In-sync replicas: `isr` decides, `alter_partition` asks the controller, `isr_changes` looks for
followers that fell behind.
"""
