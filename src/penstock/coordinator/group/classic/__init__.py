"""Classic groups: members elect a leader, which assigns the partitions for all of them.

A rebalance has two phases. In the first, every member sends JoinGroup and waits for the others; when all have joined,
or the rebalance timeout is over, the group has a new generation and all members get their response. In the second,
every member sends SyncGroup and waits for that of the leader, which has the assignments; when they are committed, all
members get their response.

`state` has the table of states, `group` and `member` the state itself. `rebalance` runs the phases, `join`, `sync` and
`leave` decide requests, `persistence` converts to records and back, `groups` is the entry point.

Only the result of a generation is replicated: its members and their assignments. Waiting members, sessions and a
generation without assignments are lost with the coordinator.
"""
