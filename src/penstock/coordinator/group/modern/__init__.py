"""The core of modern groups: groups whose coordinator assigns partitions or tasks, and whose members send heartbeats.

Consumer groups (KIP-848) and streams groups (KIP-1071) use it. Three epochs show the progress of a rebalance:

- The group epoch goes up when the members, their subscriptions or the topics change.
- The target assignment has the group epoch for which it was computed.
- Each member epoch follows the epoch of the target assignment, heartbeat by heartbeat: the member first revokes
  what other members wait for, then receives what other members have revoked.

`member` and `group` hold the state, `records` converts it to log records, `groups` finds groups and replays records,
`timeouts` removes members that miss a deadline. This package must not import `consumer` or `streams`.
"""
