"""Consumer groups (KIP-848): the coordinator assigns partitions to members that send ConsumerGroupHeartbeat.

See `modern` for the epochs. Invariant: no partition is assigned to two members at once. A partition is assigned only
while `ConsumerGroup.owner_of` has no owner for it; an owner is removed only when it confirms the revocation or is
removed from the group.

`groups` is the entry point. `heartbeat` decides the requests of members with the consumer protocol, `classic_members`
those of members with the classic protocol, `migration` changes the type of a group. `update` has the steps of a
request, `target` and `assignors` compute the target assignment, `reconciliation` takes members closer to it.
"""
