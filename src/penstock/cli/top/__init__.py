"""`penstock top`: a cluster at work, on one screen.

    watching    asks a cluster how it is: a `Snapshot`
    figures     what two snapshots and the ones before them say: rates, lag, what is not well
    screen      figures as a picture for a terminal
    keys        what is pressed on the keyboard
    live        the loop that brings them together

Only `watching` talks to a cluster, only `keys` and `live` to a terminal; between them are plain values.
"""
