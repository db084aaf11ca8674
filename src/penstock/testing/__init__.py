"""Fakes that are part of the package: a virtual clock, an in-memory network, a disk that loses what was not synced.

With these a whole node, and later a whole cluster, runs in one thread from one seed; a failure prints the seed
that repeats it. Nothing but tests imports this package.
"""
