"""A node's partition logs in Kafka's file formats: segments, indexes, leader epochs, producer state, recovery,
retention.

`store.LogStore` has the directories of `log.dirs`; a `directory.LogDirectory` has logs; a `log.Log` is one partition.
Nothing here knows leaders, requests or clients, and nothing reads records, only batches.
"""
