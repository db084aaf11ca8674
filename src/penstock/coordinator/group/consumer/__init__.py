"""Groups to whose members the coordinator assigns partitions (KIP-848): ConsumerGroupHeartbeat.

Three numbers tell how far a group is. The group's epoch goes up when its members, their subscriptions or its
topics change; the assignment's epoch follows it when the target assignment has been computed anew (`target`,
`assignors`); each member's own epoch follows that one, heartbeat by heartbeat, as the member is led from what it
has to what it shall have (`reconciliation`): first it gives up what others wait for, then it receives what others
have given up.

Never are two members given one partition at the same time: a partition is handed out only while
`ConsumerGroup.owner_of` knows nobody, and an owner is forgotten only when it says that it has let go, or is put out
of the group.

`groups` is the way in. `heartbeat` decides what members of the new kind send, `classic_members` what those send that
have not been upgraded yet, `migration` turns a group from one type into the other while its members go on.
"""
