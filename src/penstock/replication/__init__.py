"""Partitions as leaders and followers: what is accepted, what is committed, who waits for it.

`table.PartitionTable` holds the partitions of this node and follows the cluster's metadata; a
`partition.Partition` is one of them; `validation` decides what a producer may write; `delayed` holds those
who wait for an offset or for bytes. Nothing here knows of connections or requests.
"""
