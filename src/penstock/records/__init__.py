"""Records as Kafka lays them out: batches, older message sets, compression, and columns.

`batch` holds the nouns and the layout of a batch's header. `kernel` offers every function that touches many
bytes or many records: compiled (`_kernel.pyx`) where there was a compiler, the plain `twin` otherwise, with
equal answers. `validate` decides whether a broker takes what a producer sent. `message_set` and `convert`
speak the formats of clients older than 0.11, `columns` turns batches into Arrow.

Nothing here does I/O or knows the time. What it reads comes from strangers and is checked before it is
believed.
"""
