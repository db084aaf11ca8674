"""The consumer: fetches ahead from its partitions, and returns messages or columns.

Sans-IO: `positions` (the position of each partition), `lookups` (requests that find a position), `fetch_session` and
`fetch_plan` (what to fetch from which node). Drivers over a `ClusterClient`: `fetcher` and `offset_finder`. `core` is
the consumer on one event loop, `aio` and `sync` are its public classes, and `read` is a bounded read into columns.
"""
