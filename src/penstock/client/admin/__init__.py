"""Admin: everything that can be asked of a cluster and changed in it, but records.

    aio.py, sync.py      the two faces, with the same calls
    topics.py ...        one module a family: its nouns, and its calls as a mixin of `Admin`
    calls.py             whom to ask, how often and for how long: leaders, controller, coordinators, deadlines
    gathering.py         many questions at once, each with its own answer or error
    outcome.py           what comes of a call about several things
    wire/                requests out of nouns and nouns out of responses, with no I/O

What programs need of this stands in `penstock.admin`. A family may be used by itself, as the commands do: then no other
is loaded.
"""
