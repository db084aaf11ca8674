"""Kafka's wire protocol: what messages exist, and how they look in bytes.

No I/O, no broker, no record formats.

`messages/` declares every message in the notation of `declare`; `plan` turns a class and a version into
steps; `interpreter` follows the steps one by one, and `compiler` writes them out as straight-line Python.
`codec` picks the compiled one. `headers` frames requests and responses, `apis` is the table of API keys and
versions, `errors` the error codes.

Message modules are imported only when somebody asks for them: a command-line tool must start at once.
"""
