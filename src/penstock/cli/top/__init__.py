"""`penstock top`: live figures of a cluster.

    snapshots   queries a cluster: a `Snapshot`
    figures     rates, lag and problems, computed from snapshots
    screen      figures as a picture for a terminal
    keys        the keyboard
    live        the main loop

Only `snapshots` talks to a cluster, only `keys` and `live` to a terminal; the rest are plain values.
"""
