"""A node's partition logs, in Kafka's own files: segments, sparse indexes, epochs, producer state, recovery,
retention.

`store.LogStore` holds the directories of `log.dirs`; each `directory.LogDirectory` holds logs; a `log.Log` is
one partition. Nothing here knows of leaders, requests or clients; nothing here looks at a record, only at
batches.
"""
