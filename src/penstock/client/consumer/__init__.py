"""The consumer: what is read from where, fetched ahead of time, and handed out as messages or columns.

Sans-IO: `positions` (where each partition stands), `lookups` (requests that find a position), `fetch_session` and
`fetch_plan` (what to ask of which node). Drivers over a `ClusterClient`: `fetcher` and `finder`. `core` is the consumer
itself, on one event loop; `aio` and `sync` are its faces, and `read` reads a bounded part of a topic into columns.
"""
