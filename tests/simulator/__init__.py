"""A deterministic simulator of whole nodes: virtual clock, in-memory network, and a disk that loses unsynced data.

One seed decides everything, so a failure prints the seed that repeats it. `scenario.run_seed` runs a seed: `clients`,
`groups` and `transactions` put load on a node while `chaos` breaks it, and `checks` verify what the node acknowledged.
"""
