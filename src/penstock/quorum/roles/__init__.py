"""The roles of a replica in the quorum, each on a page. `quorum.core` has the transitions between them.

Voters take all roles. An observer (a broker, or a controller that is not a voter) is only unattached or a follower.
"""
