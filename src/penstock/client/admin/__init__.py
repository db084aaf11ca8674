"""Admin: everything that can be asked of a cluster and changed in it, but records.

    aio.py, sync.py      the two faces, with the same calls
    topics.py ...        one module a family: its nouns, and its calls as a mixin of `Admin`
    calls.py             whom to ask, how often and for how long: leaders, controller, coordinators, deadlines
    outcome.py           what comes of a call about several things
    wire/                requests out of nouns and nouns out of responses, with no I/O

Names are imported from here when they are asked for, so that whoever needs one family does not load them all.
"""
