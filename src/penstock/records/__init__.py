"""Records as Kafka lays them out: batches, older message sets, compression, and columns.

`batch` holds the nouns and the layout of a batch's header. `kernel` offers every function that touches many bytes or
many records, and `producing` what producers need besides; both are compiled from the `.pyx` files. `message_set` and
`convert` handle the formats of clients older than 0.11, `columns` turns batches into Arrow.

Nothing here does I/O or knows the time. The bytes come from peers and disks, and are checked before they are used.
"""
