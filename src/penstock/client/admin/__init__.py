"""Admin: describes and changes everything in a cluster except records.

    aio.py, sync.py      the two public classes, with the same calls
    topics.py ...        one module per family: its types, and its calls as a mixin of `Admin`
    calls.py             leaders, controller, coordinators, retries and deadlines
    results.py           the value or error of each item of a call
    wire/                requests from types and types from responses, without I/O

Programs import from `penstock.admin`. A family may be used alone, as the commands do: then no other is loaded.
"""
