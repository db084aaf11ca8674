"""The messages of Kafka's protocol, one module per API, in the notation of `penstock.protocol.declare`.

Each module holds a request and its response, with the fields of every version from those that Kafka 3.9 still
understood (0.10 clients send them) to the newest stable ones of Kafka 4.3. Its docstring says what each version
changed: "adds" names request fields, "returns" response fields. Names are Kafka's own, in snake case.

A field that some version lacks has the default that Kafka gives it there, with one exception: a string that may be
null, and has no default in Kafka, is None here.

Nothing is imported from this package as a whole; `penstock.protocol.apis` imports a module when its API is first used.
"""
