"""Kafka's wire protocol: its messages and their encoding.

No I/O, no broker, no record formats.

`messages/` declares every message in the notation of `declare`; `plan` turns a class and a version into steps;
`interpreter` follows the steps one by one, and `compiler` writes them as straight-line Python. `codec` picks the
compiled one. `headers` has request and response headers, `apis` the table of API keys and versions, `errors` the error
codes.

Message modules are imported when they are first used: a command-line tool must start quickly.
"""
