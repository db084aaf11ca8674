"""Kafka's record formats: batches, older message sets, compression, and columns.

`batch` has the types and the layout of a batch header. `kernel` has every function that touches many bytes or many
records, and `producing` what only producers need; both are compiled from the `.pyx` files. `message_set` and `convert`
handle the formats of clients older than 0.11, `columns` converts batches to Arrow.

Nothing here does I/O or reads a clock. Bytes from clients and disks are checked before they are used.
"""
