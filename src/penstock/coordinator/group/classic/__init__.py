"""Classic groups: members that elect a leader, which assigns the partitions for all of them.

A rebalance has two phases. In the first one every member sends JoinGroup and waits for the others; when all
have come, or their time is up, the group has a new generation and everyone is answered. In the second one
every member sends SyncGroup and waits for the leader's, which carries the assignments; they are written down,
and when they are committed everyone is answered again. `state` has the table of states, `group` and `member`
are what there is, `rebalance` moves a group through its phases, `join`, `sync` and `leave` decide requests,
`persistence` leads to records and back, `groups` is the way in.

Only what a generation ends in is replicated: who is in it, and who reads what. Who waits, who has been
silent and for how long, and a generation that nobody has synced yet are the coordinator's own memory, and
go when it goes.
"""
