"""Groups whose members rebalance among themselves: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""
